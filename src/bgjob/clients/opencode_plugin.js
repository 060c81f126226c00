// bgjob's plugin for opencode, written by `bgjob client add opencode --hooks`: it tells a session which
// of its background jobs have ended, also a session that is idle.
import { spawn } from "node:child_process"

const command = ["bgjob", "hook", "opencode"]
const STARTS_OR_WAITS = /_(execute_command|wait_for_job)$/
// In the answer of a tool, which may be JSON inside of JSON.
const JOB_IDS = /job_id\\*":\s*\\*"([0-9a-f-]{36})/g

export const BgjobPlugin = async ({ client }) => {
  const untold = new Map() // session -> the ids of its jobs for whose end no process waits yet
  const waiters = new Set() // the processes that wait for the end of a job
  const chosen = new Map() // session -> the agent and the model that its user chose

  const parentOf = async (id) => (await client.session.get({ path: { id } })).data?.parentID

  // A session that cannot be asked for counts as one without a parent.
  const rootOf = async (id) => {
    const parent = await parentOf(id).catch(() => undefined)
    return parent ? rootOf(parent) : id
  }

  const prompt = (id, text) =>
    client.session.promptAsync({ path: { id }, body: { ...chosen.get(id), parts: [{ type: "text", text }] } })

  // Resolves to what the hook has to tell of these jobs; null: it failed.
  const ask = (name, ids) =>
    new Promise((resolve) => {
      const hook = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
      const end = (told) => {
        waiters.delete(hook)
        resolve(told)
      }
      let text = ""
      waiters.add(hook)
      hook.on("error", () => end(null))
      hook.on("close", (code) => end(code === 0 ? text.trim() : null))
      hook.stdin.on("error", () => {})
      hook.stdout.setEncoding("utf8").on("data", (more) => (text += more))
      hook.stdin.end(JSON.stringify({ hook_event_name: name, job_ids: ids }))
    })

  const remember = (id, ids) => untold.set(id, new Set([...(untold.get(id) ?? []), ...ids]))

  const onIdle = async (id) => {
    const ids = [...(untold.get(id) ?? [])]
    untold.delete(id)
    if (!ids.length) return
    const text = (await ask("session.idle", ids)) || (await ask("wait", ids))
    if (text !== "") remember(id, ids) // some may still run; "": all of them have been told of
    if (text) await prompt(id, text)
  }

  process.on("exit", () => waiters.forEach((hook) => hook.kill()))

  if (process.argv[2] === "run") return {} // opencode ends with its first idle session

  return {
    "chat.message": async ({ sessionID, agent, model }) => {
      chosen.set(sessionID, { ...(agent && { agent }), ...(model && { model }) })
    },
    "tool.execute.after": async ({ tool, sessionID }, answer) => {
      if (!STARTS_OR_WAITS.test(tool)) return
      const ids = [...JSON.stringify(answer ?? "").matchAll(JOB_IDS)].map((found) => found[1])
      remember(await rootOf(sessionID), ids)
    },
    event: async ({ event }) => {
      // not awaited: a hook that waits must not hold up the other events
      if (event.type === "session.idle") onIdle(event.properties.sessionID).catch(() => {})
    },
  }
}
