// Run by test_code_clients: the requests of the JavaScript code-interpreter client, sent by the official client's own
// typed transport (its ./internal entry), since the package that wraps them is not on npm.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [domain, apiKey, modules] = process.argv.slice(2);
const entry = createRequire(modules + "/").resolve("@alibaba-group/opensandbox");
const load = (name) => import(pathToFileURL(entry.replace("/cjs/index.cjs", `/${name}.js`)).href);
const { ConnectionConfig, Sandbox } = await load("index");
const { createExecdClient } = await load("internal");
const connectionConfig = new ConnectionConfig({ domain, apiKey, requestTimeoutSeconds: 120 });
const ok = (name, condition, detail) =>
  console.log(`${condition ? "" : "not "}ok javascript code ${name}${condition ? "" : " " + JSON.stringify(detail)}`);

const sandbox = await Sandbox.create({ connectionConfig, image: "host", timeoutSeconds: 600 });
try {
  const endpoint = await sandbox.getEndpoint(44772);
  const baseUrl = `http://${endpoint.endpoint}`;
  const headers = { ...(endpoint.headers ?? {}) };
  const client = createExecdClient({ baseUrl, headers });

  const context = async (language) => (await client.POST("/code/context", { body: { language } })).data;
  const run = async (code, ctx) => {
    const answer = await fetch(`${baseUrl}/code`, {
      method: "POST", headers: { ...headers, accept: "text/event-stream", "content-type": "application/json" },
      body: JSON.stringify({ code, context: ctx }) });
    const events = (await answer.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const of = (type) => events.filter((e) => e.type === type);
    return { events, out: of("stdout").map((e) => e.text).join(""), error: of("error")[0]?.error,
      complete: of("execution_complete").length, value: of("result").at(-1)?.results["text/plain"] };
  };

  const python = await context("python");
  ok("create", Boolean(python.id) && python.language === "python", python);
  const got = await client.GET("/code/contexts/{context_id}", { params: { path: { context_id: python.id } } });
  ok("get", got.data?.id === python.id, got.error);
  let done = await run("x = 40\nprint('hello')\nx + 2", python);
  ok("run", done.out === "hello\n" && done.value === "42" && done.complete === 1, done.events);
  done = await run("x", python);
  ok("state", done.value === "40", done.events);
  done = await run("1 / 0", python);
  ok("error", done.error?.ename === "ZeroDivisionError" && done.error.traceback.length > 0, done.events);
  const other = await context("python");
  ok("isolation", (await run("x", other)).error?.ename === "NameError");
  const listed = await client.GET("/code/contexts", { params: { query: { language: "python" } } });
  ok("list", listed.data.map((c) => c.id).includes(other.id), listed);

  const running = run("import time\ntime.sleep(1000)", other);
  let stopped;
  do { // until the run has begun, there is nothing to interrupt
    stopped = await client.DELETE("/code", { params: { query: { id: other.id } } });
  } while (!await Promise.race([running.then(() => true), new Promise((r) => setTimeout(r, 50, false))]));
  ok("interrupt", stopped.response.ok && (await running).error?.ename === "KeyboardInterrupt", await running);
  const unknown = await client.DELETE("/code", { params: { query: { id: "no-such-id" } } });
  ok("interrupt of an unknown id fails", Boolean(unknown.error), unknown.response.status);

  const js = await context("javascript");
  done = await run("const a = [1, 2]; console.log('js'); a", js);
  ok("javascript", done.out === "js\n" && done.value === "[ 1, 2 ]", done.events);
  await client.DELETE("/code/contexts/{context_id}", { params: { path: { context_id: js.id } } });
  const gone = await client.GET("/code/contexts/{context_id}", { params: { path: { context_id: js.id } } });
  ok("delete", gone.response.status === 404 && gone.error.code === "CONTEXT_NOT_FOUND", gone.error);
  await client.DELETE("/code/contexts", { params: { query: { language: "python" } } });
  const none = await client.GET("/code/contexts", { params: { query: { language: "python" } } });
  ok("delete by language", none.data.length === 0, none.data);
} finally {
  await sandbox.kill();
  await sandbox.close?.();
}
