// What pages do by themselves: follow the live stream, keep times up to date, copy, choose rows, switch the theme.
"use strict";

const EVERY_SECOND = 1000;
const UNITS = [[86400 * 2, 86400, "days"], [5970, 3600, "h"], [99.5, 60, "min"], [0, 1, "s"]];

// Times

function span(seconds) {
  const [, size, unit] = UNITS.find(([from]) => seconds >= from);
  return `${Math.round(seconds / size)} ${unit}`;
}

function ago(element) {
  const passed = (Date.now() - Date.parse(element.dateTime)) / 1000;
  if (Math.abs(passed) < 1) return element.dataset.ago || "now";
  if (passed > 0) return element.dataset.ago === "due" ? "due" : `${span(passed)} ago`;
  return `in ${span(-passed)}`;
}

function tick() {
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const text = ago(element);
    if (element.textContent !== text) element.textContent = text;
  }
}

// Fresh parts: the page is asked for again, and what differs is put in place of what is there.

let looking = false;
let again = false;

async function look() {
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, redirect: "manual" });
    if (answer.type === "opaqueredirect") location.reload();
    else if (answer.ok) renew(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The stream says when the server is back.
  } finally {
    looking = false;
    if (again) {
      again = false;
      setTimeout(look, 500);
    }
  }
}

function renew(page) {
  for (const old of document.querySelectorAll("[data-fresh]")) {
    const made = page.getElementById(old.id);
    if (!made || comparable(old) === comparable(made)) continue;
    const chosen = new Set([...old.querySelectorAll("input:checked")].map((each) => each.value));
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    const opened = old.querySelectorAll("details[data-keep][open]");
    old.replaceWith(made);
    for (const each of opened) document.getElementById(each.id)?.replaceWith(each);
    for (const box of made.querySelectorAll("input[type=checkbox]")) box.checked = chosen.has(box.value);
    htmx.process(made);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
  tick();
  count();
}

// Times run by themselves, visitors open what they like, and htmx leaves marks of its own.
function comparable(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time[data-ago]")) time.textContent = "";
  for (const kept of copy.querySelectorAll("details[data-keep]")) {
    kept.open = false;
    kept.querySelector(".inside").replaceChildren();
  }
  for (const each of [copy, ...copy.querySelectorAll("[class]")]) {
    each.classList.remove("htmx-request", "htmx-settling", "htmx-swapping", "htmx-added");
    if (!each.className) each.removeAttribute("class");
  }
  return copy.innerHTML;
}

// The stream

let stream = null;

function follow() {
  const path = document.body.dataset.live;
  if (!path || stream || document.hidden) return;
  stream = new EventSource(path);
  const dot = document.getElementById("link");
  const show = (state, says) => {
    dot.className = `dot ${state}`;
    dot.title = says;
  };
  stream.onopen = () => show("on", "Live");
  stream.onerror = () => show("off", "Not connected; trying again");
  stream.addEventListener("change", () => {
    look();
    document.dispatchEvent(new Event("hookfuse:change"));
  });
  stream.addEventListener("leave", () => location.assign("/dashboard/login"));
}

function unfollow() {
  stream?.close();
  stream = null;
}

// Rows that are chosen

function count() {
  const form = document.getElementById("these");
  if (!form) return;
  const number = document.querySelectorAll("input[form=these]:checked").length;
  form.hidden = number === 0;
  form.querySelector("[data-count]").textContent = number;
}

// What the API says about a field is said at the field.

function mark(form, result) {
  for (const said of form.querySelectorAll(".said")) said.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-describedby");
  }
  for (const fault of result.querySelectorAll("[data-fault]")) say(fieldOf(form, fault.dataset.fault), fault, result.id);
  form.querySelector("[aria-invalid]")?.focus();
}

// The API may mean a part of what was typed, as in `delays.2`.
function fieldOf(form, name) {
  const called = (each) => form.querySelector(`[name="${CSS.escape(each)}"]`);
  return name ? called(name) || called(name.split(".")[0]) : null;
}

function say(field, fault, about) {
  if (!field) return;
  const said = document.createElement("small");
  said.className = "said";
  said.id = `${about}-${field.name}`;
  said.textContent = fault.querySelector("span").textContent;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", said.id);
  field.after(said);
}

// Theme

const THEMES = ["auto", "light", "dark"];

function switchTheme(button) {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  root.dataset.theme = next;
  button.querySelector("span").textContent = next;
  document.cookie = `hookfuse-theme=${next}; path=/dashboard; max-age=31536000; samesite=strict`;
  document.dispatchEvent(new Event("hookfuse:theme"));
}

async function copy(button) {
  const text = button.closest(".code").querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Over plain HTTP there is no clipboard: choose the text, so that a key press copies it.
    getSelection().selectAllChildren(button.closest(".code").querySelector("code"));
    button.textContent = "Press Ctrl-C";
  }
  setTimeout(() => (button.textContent = "Copy"), 2000);
}

// The demo's receivers

async function change(button) {
  const body = JSON.stringify({ name: button.dataset.receiver, behaviour: button.dataset.behaviour });
  await fetch("/demo/receivers", { method: "POST", headers: { "content-type": "application/json" }, body });
  look();
}

// Keys: / searches, g and a letter goes to a page.

let went = false;

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  if (went) {
    went = false;
    document.querySelector(`[data-shortcut="${CSS.escape(event.key)}"]`)?.click();
  } else if (event.key === "g") {
    went = true;
    setTimeout(() => (went = false), 1000);
  } else if (event.key === "/") {
    const search = document.querySelector("[data-search]");
    if (search) {
      event.preventDefault();
      search.focus();
    }
  }
}

function fillDefaults() {
  for (const field of document.querySelectorAll("[data-default]")) {
    if (field.value) continue;
    const hours = parseInt(field.dataset.default, 10);
    field.value = new Date(Date.now() + hours * 3600000).toISOString().slice(0, 19);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  tick();
  fillDefaults();
  setInterval(tick, EVERY_SECOND);
  follow();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) unfollow();
  else {
    follow();
    if (document.body.dataset.live) look();
  }
});
window.addEventListener("pagehide", unfollow);
window.addEventListener("pageshow", follow);
document.addEventListener("live", look);
document.addEventListener("keydown", pressed);
document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  if (button.matches("[data-copy]")) copy(button);
  if (button.matches("[data-receiver]")) change(button);
  if (button.id === "theme") switchTheme(button);
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-all]"))
    for (const box of document.querySelectorAll("input[form=these]")) box.checked = event.target.checked;
  count();
});
document.addEventListener("htmx:afterSwap", (event) => {
  tick();
  count();
  const form = event.detail.target.closest("form");
  if (form && event.detail.target.matches(".result")) mark(form, event.detail.target);
});
