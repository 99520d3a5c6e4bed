"""Reports a failed build in the user's terms: file and line of their sources, and the compiler's message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from opsmith.build.messages import FILE, Message, find_messages
from opsmith.build.missing_header import advice_on_header, missing_header
from opsmith.build.plan import Plan, Step
from opsmith.catalogue import Facts, explain
from opsmith.catalogue.machine import ENTRIES as MACHINE
from opsmith.codegen.instantiate import SIGNATURE_MARK
from opsmith.codegen.prototype import find_prototype, prototype, struct_definitions
from opsmith.errors import BuildError, CompileError, SignatureError
from opsmith.spec.definition import Definition, Device, Kernel
from opsmith.spec.extension import TEXT_MARK

__all__ = ["compiler_output", "explain_failure", "explain_signature", "failed_steps"]

# Where the user's code led to an error in a header: gcc's "required from here" and clang's "requested here".
_CAUSE = re.compile(
    rf"^{FILE}:(?P<line>\d+):(?P<column>\d+):\s+(?:required from|note: in instantiation of .* requested here)",
    re.MULTILINE,
)
# By which of the user's lines a header was included.
_INCLUDED = re.compile(
    r"^(?:In file included from| +from) (?P<file>[^\n]+?):(?P<line>\d+)(?::(?P<column>\d+))?[,:]$", re.MULTILINE
)
_UNDEFINED = re.compile(r"undefined reference to [`'\"](?P<symbol>.+)'")
# What compilers say of a kernel that is cast to the type that it should have.
_CAST_FAILS = re.compile(r"static_cast|^invalid type conversion")
_MACHINE = frozenset(entry.id for entry in MACHINE)
_SHOWN_MESSAGES = 3
_SHOWN_NOTES = 4
_SHOWN_EXPLANATIONS = 2
_CONTEXT_LINES = 1


def explain_failure(plan: Plan, output: str) -> BuildError:
    """Return the exception for a failed build from what ninja and the compilers printed.

    A kernel that does not fit its definition gives a SignatureError whose `operator` and `device` say which one;
    `explain_signature` adds the details where the definitions are known.
    """
    failed = failed_steps(plan, output)
    body = compiler_output(output)
    messages = find_messages(body)
    own = []
    for message in messages:
        # Errors of the machine, such as a full disk, come with whatever line was compiled last.
        if _is_the_machines(message):
            break
        if _find_user_text(message.file, message.line, plan, failed) is not None:
            own.append(message)
        # What follows an error in the user's own text is often its consequence.
        elif message.file.startswith(SIGNATURE_MARK) and not own:
            step = _step_that_says(message, plan, output)
            return _MismatchError(message.file.removeprefix(SIGNATURE_MARK), step, message)
        elif message.file in plan.files and not own and (end := _end_of_file(message, messages, plan, failed)):
            own.append(end)
            break
    else:
        if not own and messages:
            own = _causes(body, messages[0], plan, failed)
    if own:
        shown = "\n\n".join(_show(message, plan, failed) for message in own[:_SHOWN_MESSAGES])
        more = len(own) - _SHOWN_MESSAGES
        rest = (
            f"\n\n({more} more error{'s' if more > 1 else ''}; OPSMITH_VERBOSE=1 shows everything)" if more > 0 else ""
        )
        return CompileError(f"{plan.extension.name} does not compile\n\n{shown}{rest}{_advice(body, messages, plan)}")
    symbols = list(dict.fromkeys(match["symbol"] for match in _UNDEFINED.finditer(body)))
    if symbols:
        return CompileError(
            f"{plan.extension.name} does not link: nothing defines {', '.join(symbols[:_SHOWN_MESSAGES])}. "
            f"Add the source that defines it, or link its library{_advice(body, messages, plan)}"
        )
    advice = _advice(body, messages, plan)
    return CompileError(f"{plan.extension.name} does not build. The compiler printed:\n\n{body.strip()}{advice}")


class _MismatchError(SignatureError):
    """A kernel does not fit its definition, as far as the compiler alone can tell."""

    def __init__(self, operator: str, step: Step | None, message: Message) -> None:
        super().__init__(f"the kernel of `{operator}` does not match its definition")
        self.operator = operator
        self.step = step
        self.message = message


def explain_signature(error: BuildError, definitions: list[Definition]) -> BuildError:
    """Return the same error with both prototypes and both places, where it is about a kernel's signature."""
    if not isinstance(error, _MismatchError):
        return error
    definition = next((item for item in definitions if item.name == error.operator), None)
    if definition is None:
        return error
    users = set(error.step.users) if error.step else set()
    device = next(
        (device for device, kernel in definition.kernels.items() if users & set(kernel.sources)),
        next(iter(definition.kernels)),
    )
    kernel = definition.kernels[device]
    source = kernel.sources[0]
    found = find_prototype(source.read_text(encoding="utf-8", errors="replace"), kernel.entry)
    location = f"{source}:{found[0]}" if found else str(source)
    shown = found[1] if found else f"no function `{kernel.entry}`"
    needed = prototype(definition, device)
    structs = struct_definitions([definition], device)
    says = error.message.text
    # That a cast fails is not news beside two prototypes, unless these are alike or differ in the fields of a struct.
    is_news = not _CAST_FAILS.search(says) or bool(structs) or _types_of(shown) == _types_of(needed)
    return SignatureError(
        f"{location}: the kernel `{kernel.entry}` does not match its definition ({definition.location})\n\n"
        f"    the definition needs   {needed}\n"
        + "".join(f"    and                    {' '.join(struct.split())}\n" for struct in structs)
        + f"    the file has           {shown}\n"
        + (f"    the compiler says      {says}\n" if is_news else "")
        + _advice_on_entry(kernel, device, shown)
        + f"\n`opsmith stub {definition.module}` prints the prototype of every kernel of this module."
    )


def _advice_on_entry(kernel: Kernel, device: Device, shown: str) -> str:
    """Return how a definition names a function that the file has in another namespace; empty where it does."""
    name = kernel.entry.rpartition("::")[2]
    found = re.search(rf"(?<![\w:])((?:\w+::)*{re.escape(name)})\(", shown)
    if found is None or found[1] == kernel.entry or kernel.style not in ("view", "native"):
        return ""
    source = kernel.sources[0].name
    return (
        f"\nThe file has `{found[1]}`, and the definition names `{kernel.entry}`. Name it with its namespace: "
        f'{device}=opsmith.{kernel.style}("{source}", entry="{found[1]}").\n'
    )


def _types_of(declaration: str) -> str:
    """Return a declaration without the names of its parameters."""
    return re.sub(r"\b\w+\s*(?=[,)])|\s", "", declaration)


def failed_steps(plan: Plan, output: str) -> list[Step]:
    """Return the steps of a plan that ninja reports as failed."""
    outputs = {word for line in output.splitlines() if line.startswith("FAILED: ") for word in line.split()}
    return [step for step in plan.steps if step.output in outputs]


def compiler_output(output: str) -> str:
    """Return the output without what ninja adds: its FAILED lines, the command below each, and its last word."""
    kept: list[str] = []
    skip_command = False
    for line in output.splitlines():
        if line.startswith("FAILED: "):
            skip_command = True
        elif skip_command:
            skip_command = False
        elif not line.startswith("ninja: "):
            kept.append(line)
    return "\n".join(kept)


def _step_that_says(message: Message, plan: Plan, output: str) -> Step | None:
    """Return the failed step whose output has a message."""
    before = output[: output.find(message.file)]
    steps = failed_steps(plan, before) or failed_steps(plan, output)
    last = before.rfind("FAILED: ")
    named = set(before[last:].partition("\n")[0].split()) if last >= 0 else set()
    return next((step for step in steps if step.output in named), steps[0] if steps else None)


def _is_the_machines(message: Message) -> bool:
    """Tell whether an error is about the machine and not about the code: a full disk, too many open files."""
    if message.is_fatal and message.file.startswith(SIGNATURE_MARK):
        return True
    return any(explanation.id in _MACHINE for explanation in explain(f"fatal error: {message.text}"))


def _end_of_file(message: Message, messages: tuple[Message, ...], plan: Plan, failed: list[Step]) -> Message | None:
    """Return an error in what opsmith has written behind a file of the user's, as one at the end of that file."""
    user = next((step.users[0] for step in failed if step.users and message.file in step.inputs), None)
    if user is None or (found := _find_user_text(str(user), 1, plan, failed)) is None:
        return None
    text = f"{message.text} (in what follows this file: is a brace or semicolon missing?)"
    notes = (note for item in messages for note in item.notes)
    kept = tuple(note for note in notes if _find_user_text(note.file, note.line, plan, failed) is not None)
    return Message(str(user), len(found.lines), None, text, notes=kept)


def _causes(body: str, error: Message, plan: Plan, failed: list[Step]) -> list[Message]:
    """Return an error in a header that is not the user's, told at the user's line that led to it."""
    for match in (*_CAUSE.finditer(body), *_INCLUDED.finditer(body)):
        if _find_user_text(match["file"], int(match["line"]), plan, failed) is not None:
            text = f"{error.text} (in {error.file}:{error.line}, which this leads to)"
            column = int(match["column"]) if match["column"] else None
            return [Message(match["file"], int(match["line"]), column, text)]
    return []


def _advice(body: str, messages: tuple[Message, ...], plan: Plan) -> str:
    """Return what the catalogue says about the output, or what to do about a header that is not there."""
    if explanations := explain(body, _facts(plan)):
        return "".join(f"\n\n{explanation.text}" for explanation in explanations[:_SHOWN_EXPLANATIONS])
    headers = (missing_header(message.text) for message in messages)
    header = next((one for one in headers if one is not None), None)
    return "" if header is None else f"\n\n{advice_on_header(header, plan)}"


def _facts(plan: Plan) -> Facts:
    from opsmith.toolchain.facts import gather_facts

    folders = ", ".join(map(str, plan.extension.include_dirs)) or None
    facts = gather_facts(with_cuda="cuda" in plan.extension.devices)
    return replace(facts, name=plan.extension.name, include_dirs=folders)


@dataclass(frozen=True)
class _UserText:
    """What the user has written of what a compiler names: what to call it, its lines, and how many come before them."""

    name: str
    lines: list[str]
    before: int = 0


def _find_user_text(name: str, line: int, plan: Plan, failed: list[Step]) -> _UserText | None:
    """Return the user's text that a line of a compiler's file belongs to, or None if it is not the user's."""
    if (text := plan.files.get(name)) is not None:
        return _find_argument(text.splitlines(), line)
    file = _user_file(name, plan, failed)
    if file is None:
        return None
    return _UserText(str(file), file.read_text(encoding="utf-8", errors="replace").splitlines())


def _find_argument(lines: list[str], line: int) -> _UserText | None:
    """Return the argument whose text a generated file has in a line."""
    marks = [number for number, text in enumerate(lines, 1) if text.startswith(TEXT_MARK)]
    before = max((mark for mark in marks if mark < line), default=None)
    if before is None:
        return None
    end = min((mark for mark in marks if mark >= line), default=len(lines) + 1)
    return _UserText(lines[before - 1].removeprefix(TEXT_MARK), lines[before : end - 1], before)


def _user_file(name: str, plan: Plan, failed: list[Step]) -> Path | None:
    """Return the user's file that a compiler's file name stands for, or None if it is not the user's."""
    users = [user for step in failed or plan.steps for user in step.users]
    path = Path(name)
    for user in users:
        if path == user or (not path.is_absolute() and (plan.extension.root / path).resolve() == user.resolve()):
            return user
    for folder in (plan.extension.root, *plan.extension.include_dirs):
        candidate = path if path.is_absolute() else folder / path
        if candidate.is_file() and candidate.resolve().is_relative_to(folder.resolve()):
            return candidate
    return None


def _show(message: Message, plan: Plan, failed: list[Step]) -> str:
    found = _find_user_text(message.file, message.line, plan, failed)
    assert found is not None
    line = message.line - found.before
    column = f":{message.column}" if message.column else ""
    first = max(line - 1 - _CONTEXT_LINES, 0)
    last = min(line + _CONTEXT_LINES, len(found.lines))
    excerpt = []
    for number in range(first + 1, last + 1):
        excerpt.append(f"    {number:5} | {found.lines[number - 1]}")
        if number == line and message.column:
            excerpt.append(f"          | {' ' * (message.column - 1)}^")
    return "\n".join([f"{found.name}:{line}{column}: {message.text}", *excerpt, *_show_notes(message, plan, failed)])


def _show_notes(message: Message, plan: Plan, failed: list[Step]) -> Iterator[str]:
    """Yield what the compiler notes about an error, rather about the user's text than about the headers' it has tried."""
    found = [(note, _find_user_text(note.file, note.line, plan, failed)) for note in message.notes]
    shown = [item for item in found if item[1] is not None] or found
    for index, (note, text) in enumerate(shown[:_SHOWN_NOTES]):
        yield f"    note: {note.text.strip()}" + (f" ({note.file}:{note.line})" if text is None else "")
        following = shown[index + 1][0].line if index + 1 < len(shown) else None
        is_shown = note.file == message.file and abs(note.line - message.line) <= _CONTEXT_LINES
        if text is None or is_shown or note.line == following or "#include" in note.text:
            continue
        line = note.line - text.before
        if 0 < line <= len(text.lines) and text.lines[line - 1].strip():
            yield f"    {line:5} | {text.lines[line - 1]}"
    if len(shown) > _SHOWN_NOTES:
        yield f"    ({len(shown) - _SHOWN_NOTES} more notes)"
