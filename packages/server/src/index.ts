/** What an application that embeds the server may use. */
export { openServer } from './server.ts'
export type { Address, CurfewServer, ServerOptions } from './server.ts'
export { SettingsError } from './settings.ts'
export type { Handler, HttpRequest, HttpResponse } from './http/api/message.ts'
export type { Log } from './engine/kernel/context.ts'
