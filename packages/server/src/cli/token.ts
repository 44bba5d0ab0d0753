/** `curfew token …`: makes, lists, rotates and revokes the tokens of a server, over HTTP. */
import { ROLES } from '@curfew/core'
import { SettingsError } from '../settings.ts'
import { clean } from './journey-clean.ts'
import { EXIT } from './journey-exit.ts'
import { lengthOf, readFlags, SERVER_FLAGS, type Flags, type Terminal } from './journey-flags.ts'
import { JourneyServer } from './journey-server.ts'

export const TOKEN_HELP = [
  'Usage',
  '  curfew token create NAME --role ROLE...   make a token; its text is printed once and stored nowhere',
  '  curfew token list                         all tokens: roles, state, last use',
  '  curfew token rotate NAME [--overlap 24h]  a new secret; the one before stays valid for the overlap, 30d at most',
  '  curfew token revoke NAME                  end it, its sessions and its open streams at once',
  '',
  'Roles (--role may be given several times):',
  '  read      look at everything                     produce   enqueue, start workflows and journeys, read results',
  '  work      what workers call                      operate   retry, cancel, pause, quiet; includes read',
  '  admin     everything: limits, configuration, deletion, tokens',
  '',
  'Of a server:  --url URL (CURFEW_URL) [http://127.0.0.1:8080], --token TOKEN (CURFEW_TOKEN): one with the role admin',
  'All of them:  --json prints what a program reads.',
].join('\n')

interface TokenView {
  readonly name: string
  readonly roles: readonly string[]
  readonly state: string
  readonly valid_secrets: number
  readonly old_secret_until: string | null
  readonly created_at: string
  readonly last_used_at: string | null
  readonly token?: string
}

type Command = (args: readonly string[], terminal: Terminal) => Promise<void>

const COMMANDS: Readonly<Record<string, Command>> = {
  async create(args, terminal) {
    const flags = read(args, { role: { type: 'string', multiple: true } }, ['NAME'], 'create NAME --role ROLE...')
    const roles = flags.texts('role').flatMap((text) => text.split(','))
    const wrong = roles.find((role) => !ROLES.some((known) => known === role))
    if (roles.length === 0 || wrong !== undefined)
      throw new SettingsError(
        `${wrong === undefined ? '--role is missing' : `--role ${JSON.stringify(wrong)} is not a role`}. Roles are ${ROLES.join(', ')}.`,
      )
    const body = { name: flags.names[0], roles }
    const made = (await new JourneyServer(flags, terminal).call('POST', '/api/v1/tokens', body)) as TokenView
    show(flags, terminal, made, () => issuedText(made))
  },
  async list(args, terminal) {
    const flags = read(args, {}, [], 'list')
    const answer = (await new JourneyServer(flags, terminal).call('GET', '/api/v1/tokens')) as { items: TokenView[] }
    show(flags, terminal, answer, () => listText(answer.items))
  },
  async rotate(args, terminal) {
    const flags = read(args, { overlap: { type: 'string' } }, ['NAME'], 'rotate NAME [--overlap 24h]')
    const overlap = flags.text('overlap')
    const body = overlap === undefined ? {} : { overlap_ms: lengthOf(overlap, '--overlap') }
    const path = `/api/v1/tokens/${encodeURIComponent(flags.names[0] ?? '')}/rotate`
    const made = (await new JourneyServer(flags, terminal).call('POST', path, body)) as TokenView
    show(flags, terminal, made, () => issuedText(made))
  },
  async revoke(args, terminal) {
    const flags = read(args, {}, ['NAME'], 'revoke NAME')
    const path = `/api/v1/tokens/${encodeURIComponent(flags.names[0] ?? '')}`
    const revoked = (await new JourneyServer(flags, terminal).call('DELETE', path)) as TokenView
    show(flags, terminal, revoked, () => `${revoked.name} is revoked`)
  },
}

export async function runToken(args: readonly string[], terminal: Terminal): Promise<number> {
  const [word, ...rest] = args
  if (word === undefined || word === 'help' || args.includes('--help') || args.includes('-h')) {
    terminal.write(TOKEN_HELP)
    return EXIT.fine
  }
  const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined
  if (command === undefined)
    throw new SettingsError(`Unknown command ${JSON.stringify(`token ${word}`)}. See curfew token --help.`)
  await command(rest, terminal)
  return EXIT.fine
}

function read(
  args: readonly string[],
  options: Parameters<typeof readFlags>[1],
  names: readonly string[],
  usage: string,
): Flags {
  return readFlags(args, { ...SERVER_FLAGS, ...options }, names, `curfew token ${usage}`)
}

function show(flags: Flags, terminal: Terminal, answer: unknown, text: () => string): void {
  terminal.write(flags.has('json') ? JSON.stringify(answer, null, 2) : text())
}

/** The token stands on a line of its own, and first: `curfew token create … | head -1`. */
function issuedText({ name, roles, token = '', old_secret_until: until }: TokenView): string {
  const old = until === null ? '' : ` The secret before stays valid until ${clean(until)}.`
  return `${clean(token)}\n${clean(name)} may ${roles.map(clean).join(', ')}. Keep this token now: it is not shown again.${old}`
}

function listText(tokens: readonly TokenView[]): string {
  if (tokens.length === 0) return 'There are no tokens.'
  const rows = tokens.map((token) => [
    token.name,
    token.roles.join(','),
    token.state,
    token.old_secret_until === null
      ? String(token.valid_secrets)
      : `${String(token.valid_secrets)} until ${token.old_secret_until}`,
    token.last_used_at ?? 'never',
  ])
  const table = [['NAME', 'ROLES', 'STATE', 'SECRETS', 'LAST USED'], ...rows].map((row) => row.map(clean))
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? []
  return table
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}
