// One client for the whole server process: a module is loaded once, its connections are kept open between requests.
import { Client } from '@curfew/sdk'
import { token, url } from '../reports.mjs'

export const client = new Client({ url, token })
