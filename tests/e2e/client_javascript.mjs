// Run by test_clients with the server's address, key and node_modules: the official JavaScript client.
import { createRequire } from "node:module";
import http from "node:http";
import { pathToFileURL } from "node:url";

const [domain, apiKey, modules] = process.argv.slice(2);
const entry = createRequire(modules + "/").resolve("@alibaba-group/opensandbox");
const sdk = await import(pathToFileURL(entry.replace("/cjs/index.cjs", "/index.js")).href);
const { ConnectionConfig, Sandbox, SandboxManager } = sdk;
const connectionConfig = new ConnectionConfig({ domain, apiKey, requestTimeoutSeconds: 60 });

const ok = (name, condition) => console.log((condition ? "ok javascript " : "not ok javascript ") + name);
const texts = (messages) => messages.map((m) => m.text);

const sandbox = await Sandbox.create({
  connectionConfig, image: "host", timeoutSeconds: 600, metadata: { lang: "js" }, env: { A: "1" },
  resource: { cpu: "1", memory: "512Mi" },
});
try {
  let run = await sandbox.commands.run("echo $A; echo err >&2; exit 3");
  ok("command", texts(run.logs.stdout)[0] === "1" && texts(run.logs.stderr)[0] === "err" && run.exitCode === 3);
  const seen = [];
  run = await sandbox.commands.run("for i in 1 2 3; do echo $i; done", {}, { onStdout: (m) => { seen.push(m.text); } });
  ok("streaming handlers", seen.join() === "1,2,3" && run.exitCode === 0);
  run = await sandbox.commands.run("sleep 30", { background: true });
  await sandbox.commands.interrupt(run.id);
  let status = await sandbox.commands.getCommandStatus(run.id);
  ok("interrupt", status.running === false);

  const session = await sandbox.commands.createSession({ workingDirectory: "/tmp" });
  await sandbox.commands.runInSession(session, "export B=2; cd /");
  run = await sandbox.commands.runInSession(session, "echo $B; pwd");
  ok("session", texts(run.logs.stdout).join() === "2,/");
  await sandbox.commands.deleteSession(session);

  const big = new Uint8Array(3_000_000).map((_, i) => i * 7);
  await sandbox.files.writeFiles([
    { path: "/tmp/j/a.txt", data: "one\ntwo\nthree\n", mode: 644 },
    { path: "/tmp/j/b.bin", data: big },
    { path: "/tmp/j/s.bin", data: (async function* () { yield big.subarray(0, 1000); yield big.subarray(1000); })() },
  ]);
  const back = await sandbox.files.readBytes("/tmp/j/s.bin");
  ok("files, streamed too", Buffer.from(back).equals(Buffer.from(big)));
  ok("lines", (await sandbox.files.readFile("/tmp/j/a.txt", { offset: 2, limit: 1 })) === "two");
  const found = await sandbox.files.search({ path: "/tmp/j", pattern: "*.txt" });
  ok("search", found.length === 1 && found[0].path === "/tmp/j/a.txt");
  const listed = await sandbox.files.listDirectory({ path: "/tmp/j" });
  ok("list", listed.map((e) => e.path.split("/").pop()).join() === "a.txt,b.bin,s.bin");
  const info = await sandbox.files.getFileInfo(["/tmp/j/a.txt"]);
  ok("info", info["/tmp/j/a.txt"].mode === 644);
  let missing = null;
  try { await sandbox.files.readFile("/nowhere"); } catch (e) { missing = e; }
  ok("missing file", missing?.statusCode === 404);

  const metrics = await sandbox.getMetrics();
  ok("metrics", metrics.cpuCount >= 1 && metrics.memoryTotalMiB <= 513);

  await sandbox.commands.run("cd /tmp/j && exec python3 -m http.server 8000 --bind 127.0.0.1", { background: true });
  const url = await sandbox.getEndpointUrl(8000);
  let page = null;
  for (let i = 0; i < 400 && !page; i++) {
    page = await fetch(url + "/a.txt").then((r) => (r.ok ? r.text() : null)).catch(() => null);
    if (!page) await new Promise((r) => setTimeout(r, 25));
  }
  ok("a port of the sandbox", page === "one\ntwo\nthree\n");

  const expiry = async () => new Date((await sandbox.getInfo()).expiresAt).getTime();
  const before = await expiry();
  const renewed = await sandbox.renew(900);
  ok("renew", before < await expiry() && new Date(renewed.expiresAt).getTime() === await expiry());
  await sandbox.patchMetadata({ lang: "ts" });
  const manager = SandboxManager.create({ connectionConfig });
  const list = await manager.listSandboxInfos({ states: ["Running"], metadata: { lang: "ts" } });
  ok("manager list", list.items.length === 1 && list.items[0].id === sandbox.id);
  await sandbox.pause();
  ok("pause", (await sandbox.getInfo()).status.state === "Paused");
  const resumed = await sandbox.resume();
  ok("resume", (await resumed.getInfo()).status.state === "Running");
  const caps = sandbox.isolation ? await resumed.isolation.capabilities().catch((e) => ({ error: e })) : null;
  ok("isolation answers", caps === null || typeof caps.available === "boolean");
} finally {
  await sandbox.kill();
}
let gone = null;
try { await sandbox.getInfo(); } catch (e) { gone = e; }
ok("killed is 404", gone?.statusCode === 404);
await connectionConfig.closeTransport?.();
http.globalAgent.destroy();
