// One conversation with a bgjob server, the same for each TypeScript SDK. It prints what was seen as JSON.
//
// `client` has: protocol, capabilities, tools(), call(name, arguments, options), resources(), read(uri),
// watch(uri): a function that waits for the next update, close().
import { writeFileSync } from 'node:fs'

export const target = JSON.parse(process.argv[2])

export async function converse(client) {
  const seen = { protocol: client.protocol, tools: await client.tools() }
  seen.executed = await answer(client, 'execute_command', { command: 'echo hello; exit 3', wait_s: 30 })
  Object.assign(seen, await waitWithProgress(client))
  if (client.capabilities.resources) seen.resources = await useResources(client)
  seen.cancelled = await cancelAWait(client)
  await client.close()
  console.log(JSON.stringify(seen))
}

async function answer(client, tool, given, options) {
  const result = await client.call(tool, given, options)
  if (result.isError) throw new Error(`${tool}: ${JSON.stringify(result.content)}`)
  return result.structuredContent
}

// A job that waits for a file, which the first progress of the wait makes.
async function waitWithProgress(client) {
  const { job_id, file } = await startWaiting(client, 'progress')
  const progress = []
  const onprogress = told => {
    progress.push(told)
    writeFileSync(file, '')
  }
  const waited = await answer(client, 'wait_for_job', { job_ids: [job_id], timeout_s: 45 }, { onprogress })
  return { progress: progress[0], waited: waited.jobs[0] }
}

async function startWaiting(client, name) {
  const file = `${target.directory}/${name}`
  const command = `echo ready; until [ -e '${file}' ]; do sleep 0.05; done; echo released`
  return { ...(await answer(client, 'execute_command', { command, name })), file }
}

async function useResources(client) {
  const { job_id, file } = await startWaiting(client, 'resources')
  const uri = `bgjob://jobs/${job_id}/stdout`
  const listed = (await client.resources()).filter(each => each.includes(job_id))
  const updated = await client.watch(uri)
  writeFileSync(file, '')
  const update = updated ? await updated() : null
  await answer(client, 'wait_for_job', { job_ids: [job_id], timeout_s: 45 })
  return { job_id, listed, update, read: await client.read(uri) }
}

async function cancelAWait(client) {
  const { job_id } = await answer(client, 'execute_command', { command: 'exec sleep 1000' })
  const stop = new AbortController()
  const options = { signal: stop.signal, onprogress: () => stop.abort('enough') }
  const wait = client.call('wait_for_job', { job_ids: [job_id], timeout_s: 45 }, options)
  const ended = await wait.then(() => 'answered', () => 'cancelled')
  const { status } = await answer(client, 'get_job_status', { job_id })
  const killed = (await answer(client, 'kill_job', { job_id })).status
  return { ended, status, killed }
}

// The next of what a client tells its handler.
export function mailbox() {
  const waiting = []
  const came = []
  return {
    put: each => (waiting.length ? waiting.shift()(each) : came.push(each)),
    next: () => (came.length ? Promise.resolve(came.shift()) : new Promise(resolve => waiting.push(resolve)))
  }
}
