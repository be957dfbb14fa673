// The JavaScript and TypeScript kernel (see kernels/PROTOCOL.md), for Node 18 and newer.
//
// Cells run on the main thread, through an inspector session with itself: that gives what a person expects of a
// prompt (top-level await, let and const that can be declared again, the value of the last expression). A worker
// thread reads the control socket, so that it can stop a cell that never returns.
//
// This text is the body of a function: on the main thread of (require, importer, source), in the worker of require.
"use strict";

const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const fs = require("node:fs");
const path = require("node:path");

const CONTROL_FD = 3;
const MAX_TEXT = 1 << 20;
const MAX_BINARY = 3 << 20;
const OURS = /^ +at .*(node:(internal|inspector|events)|\(eval at <anonymous> \(\[eval\])/; // lines of a stack
const KERNEL = "Symbol.for('osb.kernel')";

if (isMainThread) main(importer, source);
else worker();

// ---- the main thread: what cells find there, and values as MIME bundles ----

function main(importModule, text) {
  const { createRequire } = require("node:module");
  const inspector = require("node:inspector");
  const util = require("node:util");
  const file = path.join(process.cwd(), "cell.js");

  process.on("SIGINT", () => {}); // a frame comes with it, which the worker acts on
  try { fs.closeSync(4); } catch { /* it was closed */ }
  globalThis.require = createRequire(file);
  globalThis.module = { exports: {} };
  globalThis.exports = globalThis.module.exports;
  globalThis.__filename = file;
  globalThis.__dirname = process.cwd();

  const inspect = (value) => util.inspect(value, {
    depth: 4, maxArrayLength: 200, maxStringLength: 100000, breakLength: 100 });
  const isBundle = (value) => value !== null && typeof value === "object" && !Array.isArray(value) &&
    Object.keys(value).length > 0 && Object.keys(value).every((key) => /^[a-z]+\/[\w.+-]+$/.test(key));

  function limited(data) {
    const out = {};
    for (const [mime, value] of Object.entries(data)) {
      let str = value instanceof Uint8Array ? Buffer.from(value).toString("base64")
        : typeof value === "string" ? value : JSON.stringify(value);
      if (str === undefined) continue;
      const binary = mime.startsWith("image/") && mime !== "image/svg+xml";
      if (str.length > (binary ? MAX_BINARY : MAX_TEXT)) {
        if (binary || !mime.startsWith("text/")) {
          out[mime] = null; // too large, which execd notes
          continue;
        }
        str = str.slice(0, MAX_TEXT) + `\n... (cut: ${MAX_TEXT} of ${str.length} characters shown)`;
      }
      out[mime] = str;
    }
    return out;
  }

  function bundle(value) {
    const offer = value?.[Symbol.for("Jupyter.display")] ?? value?.toMimeBundle;
    const data = { "text/plain": inspect(value) };
    if (typeof offer === "function") Object.assign(data, offer.call(value, "text/html"));
    else if (typeof value?.toHtml === "function") data["text/html"] = String(value.toHtml());
    else if (isBundle(value)) return limited({ "text/plain": "", ...value });
    return limited(data);
  }

  function describe(error) {
    if (!(error instanceof Error)) return { ename: "Error", evalue: inspect(error), traceback: [`Uncaught ${inspect(error)}`] };
    const stack = String(error.stack ?? error).split("\n").filter((line) => !OURS.test(line));
    return { ename: String(error.name), evalue: String(error.message).slice(0, 65536),
             traceback: stack.join("\n").slice(0, MAX_TEXT).split("\n") };
  }

  const send = (frame) => {
    const data = Buffer.from(JSON.stringify(frame));
    const head = Buffer.alloc(4);
    head.writeUInt32BE(data.length);
    const all = Buffer.concat([head, data]);
    for (let at = 0; at < all.length;) {
      try {
        at += fs.writeSync(CONTROL_FD, all, at);
      } catch (error) {
        if (error.code !== "EAGAIN") process.exit(0);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1); // execd is slow to read
      }
    }
  };
  // What is printed next must not overtake it: wait until execd has it.
  const acks = new Int32Array(new SharedArrayBuffer(4));
  const show = (data) => {
    const n = acks[0] + 1;
    send({ op: "display", data, ack: n });
    Atomics.wait(acks, 0, n - 1, 5000);
  };
  globalThis.display = (...values) => { for (const v of values) show(bundle(v)); };
  globalThis.display.html = (html) => globalThis.display({ "text/html": String(html) });
  globalThis.display.png = (data) => globalThis.display({ "image/png": Buffer.from(data) });

  const session = new inspector.Session();
  session.connect();
  let count = 0, cell = 0; // the number of the one that runs, 0: none
  const held = {}; // the value of a cell on its way to us
  Object.defineProperty(globalThis, Symbol.for("osb.kernel"), {
    value: Object.freeze({ hold: (v) => { held.value = v; }, importer: importModule }) });

  // A value of the inspector as itself.
  function real(remote) {
    if (!remote.objectId) return "value" in remote ? remote.value
      : remote.unserializableValue?.endsWith("n") ? BigInt(remote.unserializableValue.slice(0, -1)) : Number(remote.unserializableValue);
    delete held.value;
    session.post("Runtime.callFunctionOn", { objectId: remote.objectId, functionDeclaration:
      `function () { globalThis[${KERNEL}].hold(this); }` });
    return typeof held.value === "object" && remote.type === "symbol" ? held.value.valueOf() : held.value;
  }

  function finish(number, frame) {
    if (cell !== number) return; // it has been given up
    cell = 0;
    if (frame) send(frame);
    session.post("Runtime.releaseObjectGroup", { objectGroup: "cell" });
    send({ op: "done", count });
  }

  const interrupted = { op: "error", ename: "KeyboardInterrupt", evalue: "interrupted", traceback: ["interrupted"] };

  function outcome(error, answer) {
    if (error && /terminated/.test(error.message)) return interrupted;
    if (error) return { op: "error", ename: "Error", evalue: error.message, traceback: [error.message] };
    if (answer.exceptionDetails) {
      const { exception, text } = answer.exceptionDetails;
      return { op: "error", ...(exception ? describe(real(exception)) : { ename: "Error", evalue: text, traceback: [text] }) };
    }
    if (answer.result.type === "undefined") return null;
    return { op: "result", data: bundle(real(answer.result)), count };
  }

  function run(number, code) {
    cell = number;
    count++;
    let expression;
    try {
      expression = prepare(code, typescript);
    } catch (error) {
      finish(number, { op: "error", ...describe(error) });
      return;
    }
    session.post("Runtime.evaluate", { expression, replMode: true, awaitPromise: true, objectGroup: "cell" }, (error, answer) => {
      let frame;
      try {
        frame = outcome(error, answer);
      } catch (failure) { // a getter or an inspect function of the value
        frame = { op: "error", ...describe(failure) };
      }
      finish(number, frame);
    });
  }

  const typescript = process.env.OSB_KERNEL === "typescript" ? loadTypeScript() : null;
  const thread = new Worker(text, { eval: true, workerData: acks });
  thread.on("message", (message) => {
    if (message.run !== undefined) run(message.number, message.run);
    if (message.stop === undefined) return;
    thread.postMessage({ stopped: message.stop }); // whatever it was doing, it does no longer
    finish(message.stop, interrupted);
  });
  thread.on("exit", (code) => process.exit(code));
  // Failures outside any cell (a timer, a promise nobody awaits) are told, not fatal: the state would be lost.
  const tell = (error) => { process.stderr.write(`Uncaught ${error?.stack ?? inspect(error)}\n`); };
  process.on("uncaughtException", tell);
  process.on("unhandledRejection", tell);
  send({ op: "ready", language: process.env.OSB_KERNEL, version: process.versions.node });
}

// ---- the worker: the control socket ----

function worker() {
  let number = 0, stopping = null;

  // Ask the main thread to give the cell up. While that does not answer, it is running something: end that.
  function stop() {
    if (stopping?.number === number) return;
    const inspector = require("node:inspector");
    const session = new inspector.Session();
    stopping = { number, session, connected: false };
    parentPort.postMessage({ stop: number });
    stopping.timer = setInterval(() => {
      if (!stopping.connected) session.connectToMainThread();
      stopping.connected = true;
      session.post("Runtime.terminateExecution", () => {});
    }, 50);
  }

  parentPort.on("message", (message) => {
    if (!stopping || message.stopped !== stopping.number) return;
    clearInterval(stopping.timer);
    if (stopping.connected) stopping.session.disconnect();
    stopping = null;
  });

  function onFrame(frame) {
    if (frame.op === "exit") process.exit(0);
    if (frame.op === "run") parentPort.postMessage({ run: frame.code, number: ++number });
    if (frame.op === "interrupt") stop();
    if (frame.op === "ack") {
      Atomics.store(workerData, 0, frame.n);
      Atomics.notify(workerData, 0);
    }
  }

  const { Socket } = require("node:net");
  const socket = new Socket({ fd: CONTROL_FD, readable: true, writable: false });
  let rest = Buffer.alloc(0);
  socket.on("data", (piece) => {
    rest = Buffer.concat([rest, piece]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE(0)) {
      const end = 4 + rest.readUInt32BE(0);
      const frame = JSON.parse(rest.subarray(4, end).toString());
      rest = rest.subarray(end);
      onFrame(frame);
    }
  });
  socket.on("close", () => process.exit(0));
  socket.on("error", () => process.exit(0));
}

// ---- cells as scripts ----

// The code with the insides of strings, comments and regular expressions blanked out, so that what is left can be
// searched. Same length.
function blank(code) {
  const out = code.split("");
  const hide = (from, to) => { for (let i = from; i < to; i++) if (out[i] !== "\n") out[i] = "_"; };
  const braces = []; // of template literals
  let last = ""; // the last character that matters: may a "/" begin a regular expression?
  for (let i = 0; i < code.length;) {
    const c = code[i], two = code.slice(i, i + 2);
    let end;
    if (two === "//") {
      end = code.indexOf("\n", i);
      if (end < 0) end = code.length;
      hide(i, end);
    } else if (two === "/*") {
      end = code.indexOf("*/", i + 2);
      end = end < 0 ? code.length : end + 2;
      hide(i, end);
    } else if (c === "'" || c === '"') {
      for (end = i + 1; end < code.length && code[end] !== c && code[end] !== "\n"; end++) if (code[end] === "\\") end++;
      hide(i + 1, end++);
      last = c;
    } else if (c === "`" || (c === "}" && braces.length && braces[braces.length - 1] === 0)) {
      if (c === "}") braces.pop();
      for (end = i + 1; end < code.length && code[end] !== "`" && code.slice(end, end + 2) !== "${"; end++)
        if (code[end] === "\\") end++;
      hide(i + 1, Math.min(end, code.length));
      if (code[end] === "$") { braces.push(0); end += 2; last = "{"; } else { end++; last = "`"; }
    } else if (c === "/" && (last === "" || "(,=:[!&|?{};+-*%^~<>\n".includes(last))) {
      let set = false;
      for (end = i + 1; end < code.length && (set || code[end] !== "/") && code[end] !== "\n"; end++) {
        if (code[end] === "\\") end++;
        else if (code[end] === "[") set = true;
        else if (code[end] === "]") set = false;
      }
      hide(i + 1, end++);
      last = "/";
    } else {
      if (braces.length) {
        if (c === "{") braces[braces.length - 1]++;
        if (c === "}") braces[braces.length - 1]--;
      }
      if (!/\s/.test(c)) last = c;
      end = i + 1;
    }
    i = end;
  }
  return out.join("");
}

// Replace what matches in code proper; `make` gets the match, as found in the original text.
function rewrite(code, pattern, make) {
  const mask = blank(code);
  let out = "", at = 0;
  for (const match of mask.matchAll(pattern)) {
    const part = (name) => match.indices.groups[name] && code.slice(...match.indices.groups[name]);
    out += code.slice(at, match.index) + make(part);
    at = match.index + match[0].length;
  }
  return out + code.slice(at);
}

const IMPORTER = `globalThis[${KERNEL}].importer`;
const BEGIN = "(?<=(?:^|[;\\n{}])\\s*)";
const FROM = "(?<from>\"[^\"\\n]*\"|'[^'\\n]*')(?<rest>\\s*with\\s*\\{[^}]*\\})?[ \\t]*;?";
const lines = (what) => "\n".repeat((what ?? "").split("\n").length - 1); // keep line numbers

// Static imports cannot stand in a script; as awaited dynamic ones they can. Exports mean nothing in a cell.
function prepare(code, typescript) {
  code = rewrite(code, new RegExp(`${BEGIN}import\\s+type\\s+(?<what>[^;"'()]+?)\\s+from\\s*${FROM}`, "dg"),
    (part) => `;${lines(part("what"))}`);
  code = rewrite(code, new RegExp(`${BEGIN}import\\s*(?<what>[^;"'()]+?)\\s*from\\s*${FROM}`, "dg"),
    (part) => `${importOf(part("what").trim(), `await ${IMPORTER}(${part("from")})`)}${lines(part("what"))}`);
  code = rewrite(code, new RegExp(`${BEGIN}import\\s*${FROM}`, "dg"),
    (part) => `void await ${IMPORTER}(${part("from")});`);
  code = rewrite(code, /(?<before>(?:^|[^.\w$]))import(?<paren>\s*\()/dg, (part) => `${part("before")}${IMPORTER}${part("paren")}`);
  code = rewrite(code, new RegExp(`${BEGIN}export\\s+default\\s+`, "dg"), () => "");
  code = rewrite(code, new RegExp(`${BEGIN}export\\s+(?=(?:async|function|class|const|let|var|enum|interface|type|abstract)\\b)`, "dg"),
    () => "");
  return typescript ? typescript(code) : code;
}

function importOf(what, from) {
  const whole = /^\*\s*as\s+([\w$]+)$/.exec(what);
  if (whole) return `var ${whole[1]} = ${from};`;
  const parts = /^(?:([\w$]+)\s*,?\s*)?(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?$/.exec(what);
  if (!parts) return `import ${what}`; // the engine's own words about it are the best
  const names = (parts[3] ?? "").split(",").map((n) => n.trim()).filter((n) => n && !/^type\s/.test(n))
    .map((n) => n.replace(/\s+as\s+/, ": "));
  if (parts[1]) names.unshift(`default: ${parts[1]}`);
  if (parts[2]) return `var ${parts[2]} = ${from}, { default: ${parts[1]} } = ${parts[2]};`;
  return `var { ${names.join(", ")} } = ${from};`;
}

// Node's own type stripping (22.13 and newer), or a compiler that the image brings.
function loadTypeScript() {
  const nodeModule = require("node:module");
  if (typeof nodeModule.stripTypeScriptTypes === "function") {
    process.removeAllListeners("warning");
    process.on("warning", () => {});
    return (code) => nodeModule.stripTypeScriptTypes(code, { mode: "transform" });
  }
  const makers = {
    typescript: (ts) => (code) => ts.transpileModule(code, {
      compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, isolatedModules: true },
    }).outputText.replace(/^export \{\};\s*$/m, ""),
    esbuild: (es) => (code) => es.transformSync(code, { loader: "ts", target: "es2022" }).code,
  };
  const prefix = path.join(path.dirname(path.dirname(process.execPath)), "lib", "node_modules");
  const places = [process.cwd(), ...(process.env.NODE_PATH ?? "").split(":"), prefix, "/usr/local/lib/node_modules",
    "/usr/lib/node_modules", "/usr/share/nodejs"].filter(Boolean);
  for (const [name, make] of Object.entries(makers)) {
    for (const place of places) {
      for (const wanted of [name, path.join(place, name)]) {
        try {
          return make(nodeModule.createRequire(path.join(place, "cell.js"))(wanted));
        } catch { /* the next one */ }
      }
    }
  }
  return () => {
    throw new Error("TypeScript needs Node 22.13 or newer, or the typescript or esbuild package, which this image has not");
  };
}
