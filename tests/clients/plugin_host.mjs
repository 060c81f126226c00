// Plays opencode for its plugin: node plugin_host.mjs PLUGIN [run]
// stdin: lines of JSON, [HOOK, ARGUMENT...]. stdout: a line for each prompt that the plugin sends, and one for each hook
// that was called. The session "child" is a child of "root", "orphan" of "unknown"; for "unknown" it cannot be asked.
import { createInterface } from "node:readline"

const [path, ...words] = process.argv.slice(2)
process.argv = ["bun", "opencode", ...words]
const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`)
const parents = { child: "root", orphan: "unknown" }
const session = {
  get: async ({ path: { id } }) => {
    if (id === "unknown") throw new Error("fetch failed")
    return { data: { id, ...(parents[id] && { parentID: parents[id] }) } }
  },
  promptAsync: async ({ path: { id }, body }) => say({ prompted: id, ...body }),
}
const { BgjobPlugin } = await import(path)
const hooks = await BgjobPlugin({ client: { session } })
for await (const line of createInterface({ input: process.stdin })) {
  const [hook, ...given] = JSON.parse(line)
  await hooks[hook]?.(...given)
  say({ called: hook in hooks })
}
process.exit()
