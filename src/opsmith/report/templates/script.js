// Makes a benchmark's page respond: marks say what they are, tiles become tabs, legends hide what is not chosen.
// Without it everything is there.
"use strict";
const tip = document.body.appendChild(document.createElement("div"));
tip.id = "tip";
tip.setAttribute("role", "status");

function show(mark) {
  const box = mark.getBoundingClientRect();
  tip.textContent = mark.dataset.tip;
  const left = Math.min(box.left + box.width / 2 + 14, innerWidth - tip.offsetWidth - 8);
  const above = box.top - tip.offsetHeight - 8;
  tip.style.left = Math.max(8, left) + "px";
  tip.style.top = (above > 8 ? above : box.bottom + 8) + "px";
  tip.classList.add("shown");
  for (const other of document.querySelectorAll(".mark.here")) other.classList.remove("here");
  mark.classList.add("here");
  light(mark.closest(".panel"), mark.closest(".series").dataset.name);
}

function hide() {
  tip.classList.remove("shown");
  for (const mark of document.querySelectorAll(".mark.here")) mark.classList.remove("here");
  for (const panel of document.querySelectorAll(".panel.faint")) panel.classList.remove("faint");
}

function light(panel, name) {
  panel.classList.add("faint");
  for (const series of panel.querySelectorAll(".series")) series.classList.toggle("hot", series.dataset.name === name);
}

for (const mark of document.querySelectorAll(".mark")) {
  const title = mark.querySelector("title");  // the browser would show it a second time
  mark.dataset.tip = title.textContent;
  mark.setAttribute("aria-label", title.textContent);
  title.remove();
  mark.addEventListener("pointerenter", () => show(mark));
  mark.addEventListener("pointerleave", hide);
}

// One stop of the Tab key for each plot; arrows go from mark to mark in it.
for (const plot of document.querySelectorAll("figure svg")) {
  plot.tabIndex = 0;
  let at = -1;
  plot.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const marks = [...plot.querySelectorAll(".series:not(.off) .mark")];
    if (event.key === "Escape") hide();
    if (!step || !marks.length) return;
    event.preventDefault();
    at = (at + step + marks.length) % marks.length;
    show(marks[at]);
  });
  plot.addEventListener("blur", hide);
}

for (const button of document.querySelectorAll(".legend button")) {
  const panel = button.closest(".panel"), name = button.dataset.name;
  button.disabled = false;
  button.addEventListener("pointerenter", () => light(panel, name));
  button.addEventListener("pointerleave", hide);
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") === "false";
    button.setAttribute("aria-pressed", String(on));
    for (const series of panel.querySelectorAll(".series"))
      if (series.dataset.name === name) series.classList.toggle("off", !on);
  });
}

// The tiles are links to the parts of the page; here they become tabs.
for (const list of document.querySelectorAll(".tiles")) {
  const tabs = [...list.querySelectorAll(".tile")];
  const choose = (chosen) => {
    for (const tab of tabs) {
      const is = tab === chosen;
      tab.setAttribute("aria-selected", String(is));
      tab.tabIndex = is ? 0 : -1;
      document.getElementById(tab.hash.slice(1)).hidden = !is;
    }
  };
  list.setAttribute("role", "tablist");
  for (const tab of tabs) {
    tab.setAttribute("role", "tab");
    tab.addEventListener("click", (event) => { event.preventDefault(); choose(tab); });
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step && event.key !== " ") return;
      event.preventDefault();
      const next = tabs[(tabs.indexOf(tab) + (step || 0) + tabs.length) % tabs.length];
      choose(next);
      next.focus();
    });
  }
  choose(tabs[0]);
}
