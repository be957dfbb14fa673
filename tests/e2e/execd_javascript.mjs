// Run by test_execd_client with execd's URL, its token and node_modules: the adapters of the official
// JavaScript client against a bare execd, without a server in between.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [url, token, modules] = process.argv.slice(2);
const entry = createRequire(modules + "/").resolve("@alibaba-group/opensandbox");
const sdk = await import(pathToFileURL(entry.replace("/cjs/index.cjs", "/index.js")).href);
const connectionConfig = new sdk.ConnectionConfig({ domain: "unused", requestTimeoutSeconds: 60 });
const factory = new sdk.DefaultAdapterFactory();
const make = (headers) => factory.createExecdStack({ connectionConfig, execdBaseUrl: url, endpointHeaders: headers });
const { commands, files, health, metrics, isolation } = make({ "X-EXECD-ACCESS-TOKEN": token });

const ok = (name, condition) => console.log((condition ? "ok adapters " : "not ok adapters ") + name);
const texts = (messages) => messages.map((m) => m.text).join();
const fails = async (promise) => promise.then(() => null, (error) => error);

ok("health", await health.ping());
ok("a wrong token is refused", (await fails(make({ "X-EXECD-ACCESS-TOKEN": "no" }).commands.run("true"))) !== null);

// commands
let run = await commands.run("printf 'a\\n\\nb\\n'; echo e >&2; exit 5", { workingDirectory: "/tmp", envs: { X: "1" } });
ok("output, blank line, exit code", texts(run.logs.stdout) === "a,\n,b" && texts(run.logs.stderr) === "e" && run.exitCode === 5);
run = await commands.run("echo $X; pwd", { workingDirectory: "/tmp", envs: { X: "1" } });
ok("environment and directory", texts(run.logs.stdout) === "1,/tmp" && run.exitCode === 0 && run.complete !== undefined);
const events = [];
for await (const event of commands.runStream("echo streamed")) events.push(event.type);
ok("event order", events[0] === "init" && events.at(-1) === "execution_complete" && events.includes("stdout"));
run = await commands.run("sleep 30", { timeoutSeconds: 1 });
ok("timeout", run.error !== undefined && run.exitCode === -1 && run.error.traceback.join().includes("timeout"));
run = await commands.run("echo one; echo two", { background: true });
let status;
do status = await commands.getCommandStatus(run.id); while (status.running);
const logs = await commands.getBackgroundCommandLogs(run.id);
ok("background", status.exitCode === 0 && logs.content === "one\ntwo\n" && logs.cursor === 8);
ok("logs from a cursor", (await commands.getBackgroundCommandLogs(run.id, 4)).content === "two\n");
const running = commands.run("sleep 30", {}, { onInit: (init) => { commands.interrupt(init.id); } });
ok("interrupt", (await running).error !== undefined);
run = await commands.run("nosuchprogram-osb");
ok("command not found", run.exitCode === 127 && texts(run.logs.stderr).includes("nosuchprogram-osb"));

// sessions
const session = await commands.createSession();
await commands.runInSession(session, "export A=1; cd /usr; f() { echo called; }");
run = await commands.runInSession(session, "echo $A; pwd");
ok("session state", texts(run.logs.stdout) === "1,/usr");
run = await commands.runInSession(session, "pwd", { workingDirectory: "/tmp" });
ok("session directory for a run", texts(run.logs.stdout) === "/tmp");
run = await commands.runInSession(session, "exit 7");
ok("session exit code", run.error?.value === "7");
await commands.deleteSession(session);
ok("deleted session is gone", (await fails(commands.deleteSession(session)))?.statusCode === 404);

// files
const dir = "/tmp/osb-adapters-" + process.pid;
await files.createDirectories([{ path: dir, mode: 755 }]);
await files.writeFiles([{ path: dir + "/a.txt", data: "one\ntwo\n", mode: 640 },
  { path: dir + "/ü.bin", data: new Uint8Array([0, 1, 2, 255]) },
  { path: dir + "/stream", data: (async function* () { for (let i = 0; i < 50; i++) yield new Uint8Array(100000); })() }]);
ok("read text", (await files.readFile(dir + "/a.txt")) === "one\ntwo\n");
ok("read bytes", Buffer.from(await files.readBytes(dir + "/ü.bin")).equals(Buffer.from([0, 1, 2, 255])));
let size = 0;
for await (const piece of files.readBytesStream(dir + "/stream")) size += piece.length;
ok("streamed both ways", size === 5000000);
ok("range", (await files.readFile(dir + "/a.txt", { range: "bytes=4-6" })) === "two");
ok("lines", (await files.readFile(dir + "/a.txt", { offset: 2, limit: 5 })) === "two");
const info = (await files.getFileInfo([dir + "/a.txt"]))[dir + "/a.txt"];
ok("info", info.mode === 640 && info.size === 8 && info.modifiedAt instanceof Date);
const replaced = await files.replaceContentsDetailed([{ path: dir + "/a.txt", oldContent: "o", newContent: "0" }]);
ok("replace counts", replaced[0].replacedCount === 2);
await files.moveFiles([{ src: dir + "/a.txt", dest: dir + "/sub/b.txt" }]);
await files.setPermissions([{ path: dir + "/sub/b.txt", mode: 600 }]);
const found = await files.search({ path: dir, pattern: "*.txt" });
ok("search after move", found.length === 1 && found[0].path === dir + "/sub/b.txt" && found[0].mode === 600);
const listed = await files.listDirectory({ path: dir, depth: 2 });
ok("list", listed.map((e) => e.path.slice(dir.length + 1)).join() === "stream,sub,sub/b.txt,ü.bin");
await files.deleteFiles([dir + "/stream"]);
await files.deleteDirectories([dir]);
ok("missing file is 404", (await fails(files.readFile(dir + "/a.txt")))?.statusCode === 404);

// metrics and isolation
const m = await metrics.getMetrics();
ok("metrics", m.cpuCount >= 1 && m.memoryUsedMiB > 0 && m.memoryUsedMiB <= m.memoryTotalMiB && m.timestamp > 1e12);
const capabilities = await isolation.capabilities();
ok("isolation capabilities", typeof capabilities.available === "boolean");
await connectionConfig.closeTransport?.();
process.exit(0);
