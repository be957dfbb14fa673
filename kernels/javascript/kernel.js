// The JavaScript and TypeScript kernel (see kernels/PROTOCOL.md), for Node 18 and newer.
//
// User code runs on the main thread. A worker thread reads the control socket and evaluates cells on the main
// thread through the inspector: that gives what a person expects of a prompt (top-level await, let and const that
// can be declared again, the value of the last expression) and lets the worker stop a cell that never returns.
"use strict";

const { Worker, isMainThread, parentPort, workerData } = require("node:worker_threads");
const fs = require("node:fs");

const CONTROL_FD = 3;
const MAX_TEXT = 1 << 20;
const MAX_BINARY = 3 << 20;

if (isMainThread) main();
else worker();

function main() {
  const { createRequire } = require("node:module");
  const path = require("node:path");
  const util = require("node:util");

  // SIGINT arrives as a frame as well, which the worker acts on; here it must only not kill.
  process.on("SIGINT", () => {});
  globalThis.require = createRequire(path.join(process.cwd(), "cell.js"));
  globalThis.module = { exports: {} };
  globalThis.exports = globalThis.module.exports;
  globalThis.__filename = path.join(process.cwd(), "cell.js");
  globalThis.__dirname = process.cwd();

  const inspectValue = (value) =>
    typeof value === "string" ? `'${value.replace(/\\/g, "\\\\").replace(/'/g, "\\'").replace(/\n/g, "\\n")}'`
      : util.inspect(value, { depth: 4, maxArrayLength: 100, maxStringLength: 100000, breakLength: 100 });

  const isBundle = (value) => value !== null && typeof value === "object" && !Array.isArray(value) &&
    Object.keys(value).length > 0 && Object.keys(value).every((key) => /^[a-z]+\/[\w.+-]+$/.test(key));

  function limited(data) {
    const out = {};
    for (const [mime, value] of Object.entries(data)) {
      let text = Buffer.isBuffer(value) || value instanceof Uint8Array
        ? Buffer.from(value).toString("base64")
        : typeof value === "string" ? value : JSON.stringify(value);
      if (text === undefined) continue;
      const binary = mime.startsWith("image/") && mime !== "image/svg+xml";
      if (text.length > (binary ? MAX_BINARY : MAX_TEXT)) {
        if (binary || !mime.startsWith("text/")) {
          out["text/plain"] ??= `(${mime} left out: too large)`;
          continue;
        }
        text = text.slice(0, MAX_TEXT) + `\n... (cut: ${MAX_TEXT} of ${text.length} characters shown)`;
      }
      out[mime] = text;
    }
    return out;
  }

  function bundle(value) {
    const offer = value?.[Symbol.for("Jupyter.display")] ?? value?.toMimeBundle;
    const data = { "text/plain": inspectValue(value) };
    if (typeof offer === "function") Object.assign(data, offer.call(value, "text/html"));
    else if (typeof value?.toHtml === "function") data["text/html"] = String(value.toHtml());
    else if (isBundle(value)) return limited({ "text/plain": "", ...value });
    return limited(data);
  }

  // `post` reaches the worker and from there execd; output has gone by then, pipes are written at once.
  const thread = new Worker(__kernelSource(), { eval: true, workerData: { language: process.env.OSB_KERNEL } });
  globalThis.display = (...values) => { for (const v of values) thread.postMessage({ op: "display", data: bundle(v) }); };
  globalThis.display.html = (html) => globalThis.display({ "text/html": String(html) });
  globalThis.display.png = (data) => globalThis.display({ "image/png": Buffer.from(data) });
  Object.defineProperty(globalThis, Symbol.for("osb.kernel"), { value: { bundle } });
  const timer = setInterval(() => {}, 1 << 30); // the loop lives as long as the worker wants it to
  thread.on("exit", (code) => { clearInterval(timer); process.exit(code); });
  // Failures outside any cell (a timer, a promise nobody awaits) are told, not fatal: the state would be lost.
  const tell = (error) => { process.stderr.write(`Uncaught ${error?.stack ?? util.inspect(error)}\n`); };
  process.on("uncaughtException", tell);
  process.on("unhandledRejection", tell);
}

// This very program, for the worker: from -e, or from its file.
function __kernelSource() {
  return process.execArgv.includes("-e") ? process.execArgv[process.execArgv.indexOf("-e") + 1]
    : fs.readFileSync(require.main?.filename ?? process.argv[1], "utf8");
}

function worker() {
  const inspector = require("node:inspector");
  const session = new inspector.Session();
  session.connectToMainThread();
  const call = (method, params) => new Promise((resolve, reject) =>
    session.post(method, params, (error, result) => (error ? reject(error) : resolve(result))));

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
  parentPort.on("message", send);

  const typescript = workerData.language === "typescript" ? loadTypeScript() : null;
  let count = 0;
  let interrupted = false;
  let running = false;

  async function run(code) {
    count++;
    interrupted = false;
    running = true;
    try {
      const source = prepare(code, typescript);
      const { result, exceptionDetails } = await call("Runtime.evaluate", {
        expression: source, replMode: true, awaitPromise: true, userGesture: false, objectGroup: "cell",
        contextId: undefined, allowUnsafeEvalBlockedByCSP: true,
      });
      if (exceptionDetails) await fail(exceptionDetails);
      else if (result.type !== "undefined") await show(result);
    } catch (error) {
      send({ op: "error", ename: interrupted ? "KeyboardInterrupt" : error.name ?? "Error",
             evalue: interrupted ? "interrupted" : String(error.message ?? error),
             traceback: String(error.stack ?? error).split("\n") });
    }
    running = false;
    await call("Runtime.releaseObjectGroup", { objectGroup: "cell" }).catch(() => {});
    await call("Runtime.evaluate", { expression: "undefined" }).catch(() => {}); // its messages first
    send({ op: "done", count });
  }

  async function show(result) {
    const { result: json, exceptionDetails } = await call("Runtime.callFunctionOn", {
      functionDeclaration: `function (v) { return JSON.stringify(globalThis[Symbol.for("osb.kernel")].bundle(v)); }`,
      arguments: [argument(result)], objectId: await globalId(), returnByValue: true,
    });
    const data = exceptionDetails ? { "text/plain": result.description ?? "" } : JSON.parse(json.value);
    send({ op: "result", data, count });
  }

  const argument = (r) => r.objectId ? { objectId: r.objectId }
    : r.unserializableValue ? { unserializableValue: r.unserializableValue } : { value: r.value };

  const globalId = async () =>
    (await call("Runtime.evaluate", { expression: "globalThis", objectGroup: "cell" })).result.objectId;

  async function fail(details) {
    const e = details.exception ?? {};
    if (interrupted) {
      send({ op: "error", ename: "KeyboardInterrupt", evalue: "interrupted", traceback: ["interrupted"] });
      return;
    }
    const stack = e.description ?? String(e.value ?? details.text);
    const name = e.className && e.subtype === "error" ? (/^([\w$]*(?:Error|Exception))\b/.exec(stack)?.[1] ?? e.className)
      : e.type === "object" ? e.className : "Error";
    const first = stack.split("\n")[0];
    const value = e.subtype === "error" ? first.replace(/^[\w$. ]*?: /, "") : first;
    send({ op: "error", ename: name, evalue: value.slice(0, 65536), traceback: stack.slice(0, MAX_TEXT).split("\n") });
  }

  function onFrame(frame) {
    if (frame.op === "exit") process.exit(0);
    if (frame.op === "run") run(frame.code);
    if (frame.op === "interrupt" && running) {
      interrupted = true;
      call("Runtime.terminateExecution").catch(() => {});
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
  send({ op: "ready", language: workerData.language, version: process.versions.node });
}

// Static imports cannot stand in a script; as awaited dynamic ones they can.
function prepare(code, typescript) {
  if (typescript) code = typescript(code);
  return code
    .replace(/^[ \t]*import[ \t]+(["'])([^"'\n]+)\1[ \t]*;?[ \t]*$/gm, "await import($1$2$1);")
    .replace(/^[ \t]*import[ \t]+([^;"'\n]+?)[ \t]+from[ \t]+(["'])([^"'\n]+)\2[ \t]*;?[ \t]*$/gm,
      (_, what, quote, from) => importOf(what.trim(), `await import(${quote}${from}${quote})`))
    .replace(/^[ \t]*export[ \t]+default[ \t]+/gm, "")
    .replace(/^[ \t]*export[ \t]+(?=(async|function|class|const|let|var)\b)/gm, "");
}

function importOf(what, from) {
  const whole = /^\*\s+as\s+([\w$]+)$/.exec(what);
  if (whole) return `var ${whole[1]} = ${from};`;
  const parts = /^(?:([\w$]+)\s*,?\s*)?(?:\*\s+as\s+([\w$]+)|\{([^}]*)\})?$/.exec(what);
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
  const { execFileSync } = require("node:child_process");
  const places = [process.cwd() + "/cell.js"];
  try {
    places.push(execFileSync("npm", ["root", "-g"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim() + "/x");
  } catch { /* no npm in the image */ }
  for (const place of places) {
    for (const [name, make] of [
      ["typescript", (ts) => (code) => ts.transpileModule(code, {
        reportDiagnostics: false, compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022,
          verbatimModuleSyntax: false, isolatedModules: true } }).outputText.replace(/^export \{\};\s*$/m, "")],
      ["esbuild", (es) => (code) => es.transformSync(code, { loader: "ts", format: "esm" }).code],
    ]) {
      try {
        return make(nodeModule.createRequire(place)(name));
      } catch { /* the next one */ }
    }
  }
  return () => { throw new Error("TypeScript needs Node 22.13 or newer, or the typescript package in the image"); };
}
