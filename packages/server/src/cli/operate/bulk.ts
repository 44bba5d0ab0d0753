/** Actions on many jobs: by ids, or by a filter, which is tried without effect first. */
import { SettingsError } from '../../settings.ts'
import type { Call, Options } from '../frame/command.ts'
import { confirmed, YES } from '../frame/confirm.ts'
import { EXIT } from '../frame/exit.ts'
import { refusal } from '../frame/remote.ts'
import { countText } from '../frame/rows.ts'
import { bodyOf, readFilter } from './filter.ts'
import { serverOf } from './show.ts'

export const BULK: Options = {
  filter: { value: 'FILTER', many: true, help: 'all jobs that match, instead of ids; see curfew jobs list --help' },
  all: { help: 'every job that the action can be done to' },
  'dry-run': { help: 'only say what would be done' },
  ...YES,
}

interface Action {
  readonly verb: 'retry' | 'cancel' | 'delete'
  readonly path: string
  readonly method: 'POST' | 'DELETE'
  /** Ids alone need no confirmation: nothing is lost. */
  readonly isHarmless?: true
}

interface DryRun {
  readonly matched: number
  readonly would_act_on: number
  readonly by_state: Readonly<Record<string, number>>
  readonly by_queue: Readonly<Record<string, number>>
}

export async function actOnMany(call: Call, action: Action): Promise<number> {
  const { flags, terminal } = call
  const server = serverOf(call)
  const words = flags.texts('filter').flatMap((text) => text.split(' '))
  const ids = flags.names
  const ways = [ids.length > 0, words.length > 0, flags.has('all')].filter(Boolean).length
  if (ways !== 1) throw new SettingsError(`Name ids, or --filter, or --all. See curfew ${nameOf(action)} --help.`)
  const chosen = ids.length > 0 ? { job_ids: ids } : { filter: bodyOf(await readFilter(server, words, false)) }
  const send = (more: object) => server.ask(action.method, action.path, { ...chosen, ...more })
  const isByFilter = ids.length === 0
  const asks = isByFilter || action.isHarmless !== true
  if (asks || flags.has('dry-run')) {
    const tried = await send({ dry_run: true })
    if (tried.status !== 200) throw refusal(tried)
    const dry = tried.body as DryRun
    if (flags.has('dry-run')) {
      terminal.write(flags.has('json') ? JSON.stringify(dry, null, 2) : dryText(action, dry))
      return EXIT.fine
    }
    if (isByFilter && dry.would_act_on === 0) {
      terminal.write(flags.has('json') ? JSON.stringify(dry, null, 2) : `No job to ${action.verb}.`)
      return EXIT.fine
    }
    if (!flags.has('yes')) terminal.note?.(dryText(action, dry))
    const what = `${action.verb === 'retry' ? 'Retry' : action.verb === 'cancel' ? 'Cancel' : 'Delete'} ${countText(isByFilter ? dry.would_act_on : ids.length, 'job')}`
    if (!(await confirmed(flags, terminal, what))) return EXIT.refused
  }
  const done = await send({ confirm: true })
  if (done.status !== 200 && done.status !== 207 && done.status !== 422) throw refusal(done)
  return told(call, action, done.body as Readonly<Record<string, unknown>>)
}

const nameOf = ({ verb, path }: Action): string => `${path.includes('dead-letter') ? 'dead' : 'jobs'} ${verb}`

function dryText(
  { verb }: Action,
  { matched, would_act_on: count, by_state: states, by_queue: queues }: DryRun,
): string {
  const listed = (of: Readonly<Record<string, number>>): string =>
    Object.entries(of)
      .map(([name, n]) => `${name} ${String(n)}`)
      .join(', ')
  const skipped = matched === count ? '' : `, ${String(matched - count)} skipped`
  const where = count === 0 ? '' : ` (${listed(states)}; ${listed(queues)})`
  return `Would ${verb} ${countText(count, 'job')}${where}${skipped}.`
}

const DONE = { retry: 'retried', cancel: 'cancelled', delete: 'deleted' } as const

interface Refusal {
  readonly job_id: string
  readonly status?: string
  readonly reason?: string
  readonly error?: string
}

function told({ flags, terminal }: Call, { verb }: Action, body: Readonly<Record<string, unknown>>): number {
  const acted = Number(body[DONE[verb]] ?? body['succeeded'] ?? 0)
  const items = ((body['items'] ?? []) as Refusal[]).filter(({ status }) => status === 'skipped')
  const refused = [...items, ...((body['errors'] ?? []) as Refusal[])]
  const skipped = Number(body['skipped'] ?? body['failed'] ?? refused.length)
  if (flags.has('json')) terminal.write(JSON.stringify(body, null, 2))
  else {
    terminal.write(`${DONE[verb]} ${countText(acted, 'job')}${skipped === 0 ? '' : `, skipped ${String(skipped)}`}`)
    for (const { job_id: id, reason, error } of refused.slice(0, 10))
      terminal.write(`  ${id}: ${reason ?? error ?? ''}`)
  }
  return acted === 0 && skipped > 0 ? EXIT.refused : EXIT.fine
}
