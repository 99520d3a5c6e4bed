"""Reports a failed build in the user's terms: file and line of their sources, and the compiler's message."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from opsmith.build.plan import Plan, Step
from opsmith.catalogue import Facts, explain
from opsmith.codegen.instantiate import SIGNATURE_MARK
from opsmith.codegen.prototype import find_prototype, prototype, struct_definitions
from opsmith.errors import BuildError, CompileError, SignatureError
from opsmith.spec.definition import Definition, Device
from opsmith.spec.extension import TEXT_MARK

__all__ = ["Message", "compiler_output", "explain_failure", "explain_signature", "failed_steps", "find_messages"]

# gcc and clang: file:line:column: error: text. nvcc: file(line): error: text.
_FILE = rf"(?P<file>{SIGNATURE_MARK}\w+|[^\s:(][^:(\n]*?)"
_MESSAGE = re.compile(
    rf"^{_FILE}(?::(?P<line>\d+)(?::(?P<column>\d+))?|\((?P<nvline>\d+)\)): (?:fatal error|error): (?P<text>.*)$",
    re.MULTILINE,
)
# Where the user's code led to an error in a header: gcc's "required from here" and clang's "requested here".
_CAUSE = re.compile(
    rf"^{_FILE}:(?P<line>\d+):(?P<column>\d+):\s+(?:required from|note: in instantiation of .* requested here)",
    re.MULTILINE,
)
# By which of the user's lines a header was included.
_INCLUDED = re.compile(
    r"^(?:In file included from| +from) (?P<file>[^\n]+?):(?P<line>\d+)(?::(?P<column>\d+))?[,:]$", re.MULTILINE
)
_NO_HEADER = re.compile(
    r"^'(?P<clang>[^']+)' file not found|^(?P<gcc>\S+): No such file or directory|"
    r"cannot open source file \"(?P<nvcc>[^\"]+)\""
)
_UNDEFINED = re.compile(r"undefined reference to [`'\"](?P<symbol>.+)'")
_SHOWN_MESSAGES = 3
_SHOWN_EXPLANATIONS = 2
_CONTEXT_LINES = 1


@dataclass(frozen=True)
class Message:
    """One error of a compiler: where it stands and what it says."""

    file: str
    line: int
    column: int | None
    text: str


def find_messages(output: str) -> tuple[Message, ...]:
    """Return the errors in a compiler's output, in order, each once."""
    found: dict[Message, None] = {}
    for match in _MESSAGE.finditer(output):
        line = int(match["line"] or match["nvline"])
        column = int(match["column"]) if match["column"] else None
        found[Message(match["file"], line, column, match["text"])] = None
    return tuple(found)


def explain_failure(plan: Plan, output: str) -> BuildError:
    """Return the exception for a failed build from what ninja and the compilers printed.

    A kernel that does not fit its definition gives a SignatureError whose `operator` and `device` say which one;
    `explain_signature` adds the details where the definitions are known.
    """
    failed = failed_steps(plan, output)
    body = compiler_output(output)
    messages = find_messages(body)
    for message in messages:
        if message.file.startswith(SIGNATURE_MARK):
            return _MismatchError(message.file.removeprefix(SIGNATURE_MARK), failed[0] if failed else None, body)
    own = [message for message in messages if _find_user_text(message.file, message.line, plan, failed) is not None]
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

    def __init__(self, operator: str, step: Step | None, output: str) -> None:
        super().__init__(f"the kernel of `{operator}` does not match its definition")
        self.operator = operator
        self.step = step
        self.output = output


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
    needed, says = _explain_structs(error, definition, device)
    return SignatureError(
        f"{location}: the kernel `{kernel.entry}` does not match its definition ({definition.location})\n\n"
        f"    the definition needs   {prototype(definition, device)}\n"
        f"{needed}"
        f"    the file has           {shown}\n"
        f"{says}\n"
        f"`opsmith stub {definition.module}` prints the prototype of every kernel of this module."
    )


def _explain_structs(error: _MismatchError, definition: Definition, device: Device) -> tuple[str, str]:
    """Return the structs that a kernel needs and what the compiler says: prototypes alone do not show the fields."""
    structs = struct_definitions([definition], device)
    if not structs:
        return "", ""
    says = [message.text for message in find_messages(error.output) if message.file.startswith(SIGNATURE_MARK)]
    needed = "".join(f"    and                    {' '.join(struct.split())}\n" for struct in structs)
    return needed, f"    the compiler says      {says[0]}\n"


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
    for message in messages:
        if (match := _NO_HEADER.search(message.text)) is None:
            continue
        header = match["clang"] or match["gcc"] or match["nvcc"]
        folders = ", ".join(map(str, plan.extension.include_dirs)) or "none"
        return f"\n\nAdd the folder that has {header} to the include folders of {plan.extension.name} (now: {folders})"
    return ""


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
    return "\n".join([f"{found.name}:{line}{column}: {message.text}", *excerpt])
