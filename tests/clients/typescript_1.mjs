// The TypeScript SDK 1.x: handshake only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ResourceUpdatedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { converse, mailbox, target } from './conversation.mjs'

const client = new Client({ name: 'typescript-1', version: '1' })
const headers = { Authorization: `Bearer ${target.token}` }
const transport = target.url
  ? new StreamableHTTPClientTransport(new URL(target.url), { requestInit: { headers } })
  : new StdioClientTransport({ command: target.command[0], args: target.command.slice(1), env: process.env })
let protocol
transport.setProtocolVersion = (set => version => {
  protocol = version
  set?.call(transport, version)
})(transport.setProtocolVersion)
await client.connect(transport)

await converse({
  protocol,
  capabilities: client.getServerCapabilities(),
  tools: async () => (await client.listTools()).tools.map(tool => tool.name),
  call: (name, given, options) => client.callTool({ name, arguments: given }, undefined, options),
  resources: async () => (await client.listResources()).resources.map(resource => resource.uri),
  read: async uri => (await client.readResource({ uri })).contents[0].text,
  watch: async uri => {
    if (!client.getServerCapabilities().resources.subscribe) return undefined
    const updates = mailbox()
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, told => updates.put(told.params.uri))
    await client.subscribeResource({ uri })
    return updates.next
  },
  close: () => client.close()
})
