// The frame around the pages: navigation, sign in, light and dark, and whether the service answers.

import { token } from "./api.js";
import { cache } from "./cache.js";
import { empty, h, render } from "./dom.js";
import { events } from "./events.js";
import { job } from "./job.js";
import { overview } from "./overview.js";
import { workers } from "./workers.js";

const PAGES = { "/": ["Jobs", overview], "/workers": ["Workers", workers], "/cache": ["Cache", cache], "/events": ["Events", events], "/job": [null, job] };
const THEME = "forebay-theme";

const at = (id) => document.getElementById(id);
const main = at("main");
let leave = () => {};

function show() {
  leave();
  const [path, query] = location.hash.slice(1).split("?");
  if (location.hash === "#main") { main.focus(); return; }
  const [title, page] = PAGES[path || "/"] ?? PAGES["/"];
  document.title = title ? `${title} · Forebay` : "Job · Forebay";
  render(at("nav"), Object.entries(PAGES).filter(([, [text]]) => text).map(([to, [text]]) =>
    h("a", { href: `#${to}`, "aria-current": to === (path || "/") ? "page" : undefined }, text)));
  render(main, empty("Loading…"));
  at("leave").hidden = !token.get();
  leave = page(main, status, new URLSearchParams(query ?? ""));
}

/** Shows whether the last look worked. */
function status(error) {
  const link = at("link");
  link.className = error ? "off" : "";
  if (!error) { link.textContent = "live"; return; }
  link.textContent = error.status === 401 ? "signed out" : error.status === 404 ? "not found" : "no answer";
  link.title = [error.message, error.leader ? `the leader is ${error.leader}` : error.hint].filter(Boolean).join(": ");
  if (error.status === 401) signIn(token.get() ? error.message : "");
  else if (main.querySelector(".empty")?.textContent === "Loading…") render(main, empty(link.title));
}

function signIn(problem) {
  at("login-error").textContent = problem;
  token.clear();
  if (!at("login").open) at("login").showModal();
  at("token").focus();
}

at("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(at("token").value.trim());
  at("token").value = "";
  at("login").close();
  show();
});
at("leave").addEventListener("click", () => { token.clear(); show(); });
at("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  document.documentElement.dataset.theme = sessionStorage.getItem(THEME) ?? (dark.matches ? "dark" : "light");
}
at("theme").addEventListener("click", () => {
  sessionStorage.setItem(THEME, document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
});
dark.addEventListener("change", paint);
paint();
addEventListener("hashchange", show);
show();
