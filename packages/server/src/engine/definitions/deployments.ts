/**
 * Deploying definitions. A version never changes once it is there, and what is in force is the version that was deployed
 * last, so that going back is deploying the old file once more. No two Apis answer at the same path.
 */
import {
  API_PATH,
  CONFIG_PATH,
  configProblems,
  DEFINITION,
  DEFINITION_VERSION,
  effectiveBudgetMs,
  isSameJson,
  MAX_DEFINITION_VERSIONS,
  OjsError,
  pathsOf,
  readDoc,
  versionId,
  type Definition,
  type DeployedName,
  type DeployedVersion,
  type Diagnostic,
  type DocKind,
} from '@curfew/core'
import type { Command } from '../kernel/command.ts'
import type { Located, Pause } from './source.ts'
import { alsoWrong, judge, type Verdict } from './verdict.ts'
import { checksFor, definitionOf, type Deployed } from './definitions.ts'
import type { DefinitionsContext } from './context.ts'
import type { Unit } from '../kernel/unit.ts'

const pauseOf =
  ({ host }: DefinitionsContext): Pause =>
  () =>
    new Promise((resolve) => {
      host.defer(resolve)
    })

/** Longer texts would hold up everybody else. */
const LONG_TEXT = 16_384

function verdictOn(context: DefinitionsContext, text: string): Promise<Verdict> {
  if (context.judgeBeside !== null && text.length > LONG_TEXT)
    return context.judgeBeside(text, context.settings.limits.run)
  return judge(text, checksFor(context), pauseOf(context))
}

export interface Deployment {
  /** False: this version was there already, word for word. */
  readonly created: boolean
  readonly definition: Definition
  readonly warnings: readonly Located[]
}

export async function deploy(context: DefinitionsContext, name: string, text: string): Promise<Deployment> {
  const judged = await verdictOn(context, text)
  const verdict = alsoWrong(judged, [...misnamed(judged.source, name), ...unconfigured(context, judged.definition)])
  const { definition, errors, warnings } = verdict
  if (definition === null)
    throw new OjsError('validation_error', `The definition has ${counted(errors.length)}.`, {
      details: { errors, warnings },
      hint: 'errors says what is wrong, and where.',
    })
  const created = await context.run(put(definition, verdict))
  context.definitions.keep({ definition, source: verdict.source })
  return { created, definition, warnings }
}

const counted = (errors: number): string => (errors === 1 ? 'an error' : `${String(errors)} errors`)

export const effectiveSec = (context: DefinitionsContext, definition: Definition): number =>
  effectiveBudgetMs(definition, context.settings.limits.run) / 1000

/** As `deploy`, without deploying. */
export async function validate(context: DefinitionsContext, text: string): Promise<Verdict> {
  const judged = await verdictOn(context, text)
  const verdict = alsoWrong(judged, unconfigured(context, judged.definition))
  const { definition } = verdict
  for (const path of definition === null ? [] : pathsOf(definition)) {
    const holder = await find(context, API_PATH, path)
    if (holder !== null && holder.name !== definition?.name) return alsoWrong(verdict, [taken(path, holder.name)])
  }
  return verdict
}

/** What it needs of the server's configuration, and is not there. */
function unconfigured({ settings }: DefinitionsContext, definition: Definition | null): readonly Diagnostic[] {
  return configProblems(definition?.config ?? {}, settings.platformConfig).map((message) => ({
    code: 'CONFIG-1',
    path: CONFIG_PATH,
    message,
    on: 'value',
  }))
}

function misnamed(source: unknown, name: string): readonly Diagnostic[] {
  const given = (source as { metadata?: { name?: unknown } | null } | null)?.metadata?.name
  if (typeof given !== 'string' || given === name) return []
  const message = `name is ${JSON.stringify(given)}, and the path of the request says ${JSON.stringify(name)}.`
  return [{ code: 'NAME-2', path: '/metadata/name', message, on: 'value' }]
}

const taken = (path: string, holder: string): Diagnostic => ({
  code: 'ROUTE-1',
  path: '/spec/bindings/http/route/path',
  message: `The definition ${holder} answers at ${path} already.`,
  on: 'value',
})

/** True: it is new. */
function put(definition: Definition, { source, warnings, locate }: Verdict): Command<boolean> {
  const { name, version, kind } = definition
  const id = versionId(name, version)
  const paths = pathsOf(definition)
  return {
    name: 'definition',
    needs: {
      docs: [
        { kind: DEFINITION.kind, id: name },
        { kind: DEFINITION_VERSION.kind, id },
        ...paths.map((path) => ({ kind: API_PATH.kind, id: path })),
      ],
    },
    run: async (unit) => {
      const stored = unit.doc(DEFINITION_VERSION, id)
      if (stored !== null && !isSameJson(stored.source, source))
        throw new OjsError('conflict', `${name} has a version ${version} already, and versions do not change.`, {
          details: { reason: 'version_exists', name, version },
          hint: 'Give the definition another version.',
        })
      const known = unit.doc(DEFINITION, name)
      const versions = known?.versions ?? []
      if (stored === null && versions.length >= MAX_DEFINITION_VERSIONS)
        throw new OjsError('conflict', `${name} has ${String(versions.length)} versions; more are not kept.`, {
          details: { reason: 'too_many_versions', name },
        })
      await holdPaths(unit, definition, known?.paths ?? [], locate)
      if (stored === null)
        unit.putDoc(DEFINITION_VERSION, id, {
          name,
          version,
          kind,
          source,
          warnings: warnings.map((warning) => ({ ...warning })),
          deployedAt: unit.now,
        })
      if (known?.version !== version)
        unit.putDoc(DEFINITION, name, {
          name,
          version,
          kind,
          versions: stored === null ? [...versions, version] : versions,
          paths,
          updatedAt: unit.now,
        })
      return stored === null
    },
  }
}

async function holdPaths(
  unit: Unit,
  definition: Definition,
  before: readonly string[],
  locate: Verdict['locate'],
): Promise<void> {
  const { name } = definition
  const paths = pathsOf(definition)
  for (const path of paths) {
    const holder = unit.doc(API_PATH, path)
    if (holder === null) unit.putDoc(API_PATH, path, { name })
    else if (holder.name !== name) {
      const error = taken(path, holder.name)
      throw new OjsError('conflict', error.message, {
        details: { reason: 'route_taken', held_by: holder.name, errors: [locate(error)] },
        hint: 'Choose another path (spec.bindings.http.route.path).',
      })
    }
  }
  const left = before.filter((path) => !paths.includes(path))
  if (left.length === 0) return
  await unit.loadDocs(API_PATH, left)
  for (const path of left) unit.putDoc(API_PATH, path, null)
}

// ---- Finding ----

/** What is in force under this name. */
export async function deployedName(context: DefinitionsContext, name: string): Promise<DeployedName | null> {
  return find(context, DEFINITION, name)
}

export async function deployedVersion(
  context: DefinitionsContext,
  name: string,
  version: string,
): Promise<DeployedVersion | null> {
  return find(context, DEFINITION_VERSION, versionId(name, version))
}

/** The Api that answers at this path, below /api/v1. */
export async function apiForPath(context: DefinitionsContext, path: string): Promise<Deployed | null> {
  const holder = await find(context, API_PATH, path)
  return holder === null ? null : definitionOf(context, holder.name, null)
}

export async function listDefinitions(
  context: DefinitionsContext,
  after: string | null,
  limit: number,
): Promise<{ readonly items: readonly DeployedName[]; readonly next: string | null }> {
  const docs = await context.read((reads) => reads.docs(DEFINITION.kind, '', after, limit + 1))
  const items = docs.slice(0, limit).map((doc) => readDoc<DeployedName>(doc))
  return { items, next: docs.length > limit ? (items.at(-1)?.name ?? null) : null }
}

async function find<T>(context: DefinitionsContext, { kind }: DocKind<T>, id: string): Promise<T | null> {
  const doc = await context.read((reads) => reads.doc(kind, id))
  return doc === null ? null : readDoc<T>(doc)
}
