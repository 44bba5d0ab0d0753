/** Cron entries, in both dialects: every answer has `cron` and `cron_job`, and lists have `crons` and `cron_jobs`. */
import {
  CRON,
  CRON_NAME_SHAPE,
  CRON_PATCH_SHAPE,
  CRON_SHAPE,
  cronExecution,
  flag,
  iso,
  notFound,
  preview,
  readCron,
  readDoc,
  renderCron,
  renderJob,
  type Cron,
  type Json,
} from '@curfew/core'
import { calendar } from '../../engine/cron/calendar.ts'
import { deleteCron, patchCron, registerCron, triggerCron, type Written } from '../../engine/cron/cron.ts'
import type { Engine } from '../../engine/engine.ts'
import { arrayOf, objectOf } from '../api/message.ts'
import { PAGES, upTo } from '../api/query.ts'
import { pagingOf, paginationOf, param, queryOf, tenantOf, type Call, type Route } from '../api/route.ts'

const PAGE = 500
const MAX_PREVIEWED = 100
const HISTORY_QUERY = { limit: upTo(1, 200) } as const
const LIST_QUERY = { enabled: flag(), cursor: CRON_NAME_SHAPE, ...PAGES } as const
const NEXT_QUERY = { count: upTo(1, MAX_PREVIEWED) } as const

const nameOf = (call: Call): string => CRON_NAME_SHAPE.read(param(call, 'name'), 'name')

function view(cron: Cron, more: Readonly<Record<string, Json>> = {}): Json {
  const rendered = renderCron(cron)
  return objectOf({ ...more, cron: rendered, cron_job: rendered })
}

/** The answer to a caller that registered or changed it. */
function written({ cron, warnings }: Written): Json {
  if (warnings.length === 0) return view(cron)
  const told = JSON.stringify(warnings)
  const rendered = `${renderCron(cron).slice(0, -1)},"x_warnings":${told}}`
  return objectOf({ x_warnings: told, cron: rendered, cron_job: rendered })
}

async function find(call: Call): Promise<Cron> {
  const name = nameOf(call)
  const doc = await call.engine.read((reads) => reads.doc(CRON.kind, name))
  const cron = doc === null ? null : readDoc<Cron>(doc)
  if (cron === null || !isOwn(call, cron)) throw notFound('cron entry', name)
  return cron
}

/** A call that speaks for a tenant sees the entries of that tenant only. */
function isOwn(call: Call, { tenant }: Cron): boolean {
  const whose = tenantOf(call)
  return whose === null || whose === tenant
}

/** The name of an entry that this call may touch. */
async function own(call: Call): Promise<string> {
  return tenantOf(call) === null ? nameOf(call) : (await find(call)).name
}

/** All of them by name. People register them one by one, so there are few, and filtering needs no index. */
async function all(engine: Engine): Promise<Cron[]> {
  return engine.read(async (reads) => {
    const found: Cron[] = []
    for (let after: string | null = null, more = true; more;) {
      const page = await reads.docs(CRON.kind, '', after, PAGE)
      found.push(...page.map((doc) => readDoc<Cron>(doc)))
      more = page.length === PAGE
      after = page.at(-1)?.id ?? null
    }
    return found
  })
}

export const CRON_ROUTES: readonly Route[] = [
  {
    method: 'POST',
    path: '/ojs/v1/cron',
    tag: 'cron',
    summary: 'Register a cron entry, or change the one with this name',
    body: { shape: CRON_SHAPE },
    answers: { 200: 'The entry, which was there', 201: 'The entry, which is new' },
    handle: async (call) => {
      const { engine } = call
      const asked = readCron(call.text, call.json, engine.now(), tenantOf(call), engine.settings.strict)
      const { isNew, ...entry } = await engine.run(registerCron(engine, asked))
      if (!isNew) return { body: written(entry) }
      return { status: 201, headers: { Location: `/ojs/v1/cron/${entry.cron.name}` }, body: written(entry) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/cron',
    tag: 'cron',
    summary: 'All cron entries, by name',
    query: LIST_QUERY,
    handle: async (call) => {
      const paging = pagingOf(call, 50)
      const { enabled: wanted } = queryOf(call, LIST_QUERY)
      const entries = (await all(call.engine)).filter(
        (cron) => isOwn(call, cron) && (wanted === undefined || cron.enabled === wanted),
      )
      const { cursor, limit, offset } = paging
      const rest = cursor === null ? entries.slice(offset) : entries.filter(({ name }) => name > cursor)
      const shown = rest.slice(0, limit)
      const next = rest.length > limit ? (shown.at(-1)?.name ?? null) : null
      const rendered = arrayOf(shown.map(renderCron))
      return {
        body: objectOf({
          crons: rendered,
          cron_jobs: rendered,
          count: String(shown.length),
          pagination: JSON.stringify(paginationOf(paging, entries.length, shown.length, next)),
        }),
      }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/cron/:name',
    tag: 'cron',
    summary: 'A cron entry',
    handle: async (call) => ({ body: view(await find(call)) }),
  },
  {
    method: 'PATCH',
    path: '/ojs/v1/cron/:name',
    tag: 'cron',
    summary: 'Switch a cron entry on or off, or change its schedule, its job or its overlap policy',
    body: { shape: CRON_PATCH_SHAPE },
    handle: async (call) => {
      const { engine, text: source, json } = call
      return { body: written(await engine.run(patchCron(engine, await own(call), source, json))) }
    },
  },
  {
    method: 'DELETE',
    path: '/ojs/v1/cron/:name',
    tag: 'cron',
    summary: 'Remove a cron entry; jobs it has fired go on',
    handle: async (call) => {
      const cron = await call.engine.run(deleteCron(await own(call)))
      return { body: view(cron, { deleted: 'true', name: JSON.stringify(cron.name) }) }
    },
  },
  {
    method: 'POST',
    path: '/ojs/v1/cron/:name/trigger',
    tag: 'cron',
    summary: 'Fire a cron entry now, beside its schedule',
    answers: { 201: 'The job', 202: 'It fires when the job before it has ended (overlap_policy enqueue)' },
    handle: async (call) => {
      const { cron, job } = await call.engine.run(triggerCron(call.engine, await own(call)))
      if (job === null) return { status: 202, body: view(cron, { waiting: 'true' }) }
      return {
        status: 201,
        headers: { Location: `/ojs/v1/jobs/${job.id}` },
        body: view(cron, { job: renderJob(job) }),
      }
    },
  },
  ...(['pause', 'resume'] as const).map((word): Route => ({
    method: 'POST',
    path: `/ojs/v1/cron/:name/${word}`,
    tag: 'cron',
    summary: word === 'pause' ? 'Switch a cron entry off' : 'Switch a cron entry on',
    handle: async (call) => {
      const change = { enabled: word === 'resume' }
      const command = patchCron(call.engine, await own(call), JSON.stringify(change), change)
      return { body: view((await call.engine.run(command)).cron) }
    },
  })),
  {
    method: 'GET',
    path: '/ojs/v1/cron/:name/history',
    tag: 'cron',
    summary: 'The jobs a cron entry has fired and that are still kept, newest first',
    query: HISTORY_QUERY,
    handle: async (call) => {
      const { name } = await find(call)
      const { limit = 20 } = queryOf(call, HISTORY_QUERY)
      const jobs = await call.engine.read((reads) => reads.lastOwned({ kind: 'cron', id: name }, limit))
      return { body: JSON.stringify({ name, executions: jobs.map(cronExecution) }) }
    },
  },
  {
    method: 'GET',
    path: '/ojs/v1/cron/:name/next',
    tag: 'cron',
    summary: 'When a cron entry fires next, or would if it was on',
    query: NEXT_QUERY,
    handle: async (call) => {
      const cron = await find(call)
      const { count = 5 } = queryOf(call, NEXT_QUERY)
      const next = preview(cron, calendar, call.engine.now(), count)
      return { body: JSON.stringify({ name: cron.name, timezone: cron.timezone, next_run_times: next.map(iso) }) }
    },
  },
]
