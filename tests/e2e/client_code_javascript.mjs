// Run by test_code_clients: the flows of the JavaScript code-interpreter client, in all its languages. The package that
// wraps them is not on npm; what it is made of is: the typed transport of the official client (its ./internal entry),
// its reader of event streams and its dispatcher to handlers.
import fs from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [domain, apiKey, modules, goBin, typescript] = process.argv.slice(2);
const entry = createRequire(modules + "/").resolve("@alibaba-group/opensandbox");
const load = (name) => import(pathToFileURL(entry.replace("/cjs/index.cjs", `/${name}.js`)).href);
const { ConnectionConfig, Sandbox } = await load("index");
const { createExecdClient, CommandsAdapter } = await load("internal");
const connectionConfig = new ConnectionConfig({ domain, apiKey, requestTimeoutSeconds: 300 });
const cells = JSON.parse(fs.readFileSync(new URL("code_cells.json", import.meta.url), "utf8"));
const place = "/tmp/node_modules_for_tests";
const ok = (name, condition, detail) =>
  console.log(`${condition ? "" : "not "}ok javascript code ${name}${condition ? "" : " " + JSON.stringify(detail)}`);

const sandbox = await Sandbox.create({ connectionConfig, image: "host", timeoutSeconds: 900,
  env: { PATH: `${goBin}:/usr/local/bin:/usr/bin:/bin`, NODE_PATH: place, HOME: "/root" } });
try {
  for (const name of ["package.json", "lib/typescript.js"])
    await sandbox.files.writeFiles([{ path: `${place}/typescript/${name}`, data: fs.readFileSync(`${typescript}/${name}`) }]);
  const endpoint = await sandbox.getEndpoint(44772);
  const baseUrl = `http://${endpoint.endpoint}`;
  const headers = { ...(endpoint.headers ?? {}) };
  const client = createExecdClient({ baseUrl, headers });
  const streams = new CommandsAdapter(client, { baseUrl, headers });

  const create = async (language) => (await client.POST("/code/context", { body: { language } })).data;
  const remove = (id) => client.DELETE("/code/contexts/{context_id}", { params: { path: { context_id: id } } });
  const interrupt = (id) => client.DELETE("/code", { params: { query: { id } } });
  const run = (code, context, handlers) => streams.consumeExecutionStream(
    streams.streamExecution({ pathname: "/code", body: { code, context }, fallbackErrorMessage: "Run code failed" }), handlers);
  const printed = (done) => done.logs.stdout.map((m) => m.text).join("");
  const answer = (done) => done.result.at(-1)?.text ?? printed(done).trim();

  for (const [language, cell] of Object.entries(cells)) {
    if (process.env.OSB_ABSENT.split(",").includes(language)) {
      console.log(`skip ${language} the host image does not have it below /usr`);
      continue;
    }
    const context = await create(language);
    ok(`${language}: a context`, Boolean(context.id) && context.language === language, context);
    const seen = [];
    const note = (kind) => (message) => { seen.push([kind, message.text ?? message.name ?? message.id]); };
    let done = await run(cell.set, context, { onInit: note("init"), onStdout: note("stdout"), onError: note("error"),
      onExecutionComplete: note("complete") });
    ok(`${language}: handlers`, seen[0][0] === "init" && seen[0][1] === context.id && seen.at(-1)[0] === "complete" &&
      printed(done).includes(cell.prints) && seen.some(([kind]) => kind === "stdout"), seen);
    done = await run(cell.use, context);
    ok(`${language}: state is kept`, answer(done) === cell.gives, done);
    const other = await create(language);
    done = await run(cell.use, other);
    ok(`${language}: contexts are isolated`, done.error?.name === cell.without, done);
    await remove(other.id);
    done = await run(cell.fail, context);
    ok(`${language}: errors`, done.error?.name === cell.error && done.error.traceback.length > 0, done);
    let stopped;
    done = await run(cell.busy, context, { onStdout: () => { stopped ??= interrupt(context.id); } });
    ok(`${language}: an interrupt ends the cell`, (await stopped).response.ok && done.error?.name === "KeyboardInterrupt", done);
    done = await run(cell.use, context);
    ok(`${language}: an interrupt keeps the state`, answer(done) === cell.gives, done);
    await remove(context.id);
  }

  const one = await create("python"), two = await create("python");
  const got = await client.GET("/code/contexts/{context_id}", { params: { path: { context_id: one.id } } });
  ok("get", got.data?.id === one.id, got.error);
  const listed = await client.GET("/code/contexts", { params: { query: { language: "python" } } });
  ok("list", listed.data.map((c) => c.id).includes(two.id), listed);
  const unknown = await interrupt("no-such-id");
  ok("interrupt of an unknown id fails", Boolean(unknown.error), unknown.response.status);
  await remove(one.id);
  const gone = await client.GET("/code/contexts/{context_id}", { params: { path: { context_id: one.id } } });
  ok("delete", gone.response.status === 404 && gone.error.code === "CONTEXT_NOT_FOUND", gone.error);
  await client.DELETE("/code/contexts", { params: { query: { language: "python" } } });
  const none = await client.GET("/code/contexts", { params: { query: { language: "python" } } });
  ok("delete by language", none.data.length === 0, none.data);
} finally {
  await sandbox.kill();
  await sandbox.close?.();
}
