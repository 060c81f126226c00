// The TypeScript SDK 2.x: either era.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { converse, mailbox, target } from './conversation.mjs'

const mode = target.era === 'stateless' ? { pin: '2026-07-28' } : 'legacy'
const client = new Client({ name: 'typescript-2', version: '1' }, { versionNegotiation: { mode } })
const headers = { Authorization: `Bearer ${target.token}` }
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } })
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: process.env })
await client.connect(transport)

await converse({
  protocol: client.getNegotiatedProtocolVersion(),
  capabilities: client.getServerCapabilities(),
  tools: async () => (await client.listTools()).tools.map(tool => tool.name),
  call: (name, given, options) => client.callTool({ name, arguments: given }, options),
  resources: async () => (await client.listResources()).resources.map(resource => resource.uri),
  read: async uri => (await client.readResource({ uri })).contents[0].text,
  watch: async uri => {
    if (!client.getServerCapabilities().resources.subscribe) return undefined
    const updates = mailbox()
    client.setNotificationHandler('notifications/resources/updated', told => updates.put(told.params.uri))
    if (target.era === 'stateless') await client.listen({ resourceSubscriptions: [uri] })
    else await client.subscribeResource({ uri })
    return updates.next
  },
  close: () => client.close()
})
