// Calls of /api/v1: with the token of this tab, once or as a stream.

const BASE = "api/v1/";
const KEY = "forebay-token";
/** Milliseconds between two calls where there is no stream, and between two attempts after a failure. */
const POLL = 5000;
const RETRY_FIRST = 1000;
const RETRY_LAST = 15000;

export class ApiError extends Error {
  constructor(status, failure) {
    super(failure?.error?.message ?? `the server answered ${status}`);
    this.status = status;
    this.hint = failure?.error?.hint ?? null;
    this.leader = failure?.error?.leader ?? null;
  }
}

// The token is in the storage of this tab alone: in no cookie, no address, and gone with the tab.
export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

async function call(path, params, signal) {
  const query = new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== "" && value !== undefined && value !== null));
  if (params?.tenant === "") query.set("tenant", "");
  const headers = token.get() ? { Authorization: `Bearer ${token.get()}` } : {};
  const answer = await fetch(`${BASE}${path}?${query}`, { headers, signal, credentials: "omit", cache: "no-store" });
  if (!answer.ok) throw new ApiError(answer.status, await answer.json().catch(() => null));
  return answer;
}

export async function get(path, params, signal) {
  return (await call(path, params, signal)).json();
}

/** Shows a view until it is ended: calls `seen(data)` for each look, and `failed(error)` (`null`: it works again). */
export function live(view, params, seen, failed) {
  const control = new AbortController();
  const path = { overview: "overview", workers: "workers", job: "job", events: "events", cache: "cache" }[view];
  const run = async () => {
    let retry = RETRY_FIRST;
    let poll = view === "cache";
    while (!control.signal.aborted) {
      try {
        if (poll) {
          seen(await get(path, params, control.signal));
          failed(null);
          await pause(POLL, control.signal);
        } else {
          await read(await call("live", { view, ...params }, control.signal), (kind, data) => {
            if (kind === "failure") failed(new ApiError(503, data));
            else { retry = RETRY_FIRST; failed(null); seen(data); }
          });
        }
      } catch (error) {
        if (control.signal.aborted) return;
        // Too many streams are open: the same figures come a little later.
        if (error.status === 429 && !poll) { poll = true; continue; }
        failed(error);
        if (error.status === 401 || error.status === 404 || error.status === 400) return;
        await pause(retry, control.signal);
        retry = Math.min(2 * retry, RETRY_LAST);
      }
    }
  };
  run().catch(() => {});
  return () => control.abort();
}

/** Reads server-sent events. EventSource would not send the token in a header. */
async function read(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    let end = text.indexOf("\n\n");
    while (end >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("data")) each(field("event"), JSON.parse(field("data")));
      end = text.indexOf("\n\n");
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
