/** Definitions of journeys: deployed, found, and read once. A version never changes, so what was read stays true. */
import {
  broken,
  DEFINITION,
  DEFINITION_VERSION,
  readDefinition,
  readDoc,
  versionId,
  type Definition,
  type DefinitionChecks,
  type DeployedName,
  type DeployedVersion,
} from '@curfew/core'
import { checksWith } from './definition-verdict.ts'
import type { Engine } from './engine.ts'

export interface Deployed {
  readonly definition: Definition
  readonly source: unknown
}

const MOST_READ = 500

/** Those that were read, by name and version; the oldest make room. */
export class Definitions {
  readonly #engine: Engine
  readonly #read = new Map<string, Deployed>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  /** Version null: the one in force. */
  async of(name: string, version: string | null): Promise<Deployed | null> {
    const wanted = version ?? (await this.#inForce(name))
    if (wanted === null) return null
    const id = versionId(name, wanted)
    const known = this.#read.get(id)
    if (known !== undefined) return known
    const doc = await this.#engine.store.doc(DEFINITION_VERSION.kind, id)
    if (doc === null) return null
    const { source } = readDoc<DeployedVersion>(doc)
    const { definition } = await readDefinition(source, trusting(this.#engine))
    if (definition === null) throw broken(`the definition ${id} was deployed and cannot be read any more`)
    const [oldest] = this.#read.keys()
    if (this.#read.size >= MOST_READ && oldest !== undefined) this.#read.delete(oldest)
    const deployed = { definition, source }
    this.#read.set(id, deployed)
    return deployed
  }

  /** Everything was removed (test bench only). */
  forget(): void {
    this.#read.clear()
  }

  async #inForce(name: string): Promise<string | null> {
    const doc = await this.#engine.store.doc(DEFINITION.kind, name)
    return doc === null ? null : readDoc<DeployedName>(doc).version
  }
}

export function definitionOf(engine: Engine, name: string, version: string | null): Promise<Deployed | null> {
  return engine.definitions.of(name, version)
}

/** What the reader of definitions has to ask the server. */
export const checksFor = ({ expressions, settings }: Engine): DefinitionChecks =>
  checksWith(expressions, settings.limits.run)

/** For one that was judged when it was deployed: its expressions and schemas are not looked at again. */
const trusting = ({ settings }: Engine): DefinitionChecks => ({
  expression: () => Promise.resolve(null),
  schema: () => null,
  limits: settings.limits.run,
})
