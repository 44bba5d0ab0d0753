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
import { checksWith, trusting } from './verdict.ts'
import type { DefinitionsContext } from './context.ts'

export interface Deployed {
  readonly definition: Definition
  readonly source: unknown
}

const MAX_READ = 500
/** Longer ones are read in a thread: thousands of states take a tenth of a second. */
const LONG_BODY = 65_536

/** Those that were read, by name and version; the oldest make room. */
export class Definitions {
  readonly #context: DefinitionsContext
  readonly #read = new Map<string, Deployed>()
  readonly #reading = new Map<string, Promise<Deployed | null>>()

  constructor(context: DefinitionsContext) {
    this.#context = context
  }

  /** Version null: the one in force. */
  async of(name: string, version: string | null): Promise<Deployed | null> {
    const wanted = version ?? (await this.#inForce(name))
    if (wanted === null) return null
    const id = versionId(name, wanted)
    const known = this.#read.get(id)
    if (known !== undefined) return known
    const reading = this.#reading.get(id) ?? this.#readAgain(id)
    this.#reading.set(id, reading)
    try {
      return await reading
    } finally {
      this.#reading.delete(id)
    }
  }

  /** It was deployed here, and need not be read again. */
  keep(deployed: Deployed): void {
    const [oldest] = this.#read.keys()
    if (this.#read.size >= MAX_READ && oldest !== undefined) this.#read.delete(oldest)
    this.#read.set(versionId(deployed.definition.name, deployed.definition.version), deployed)
  }

  async #readAgain(id: string): Promise<Deployed | null> {
    const { readBeside, settings } = this.#context
    const doc = await this.#context.look((reads) => reads.doc(DEFINITION_VERSION.kind, id))
    if (doc === null) return null
    const { source } = readDoc<DeployedVersion>(doc)
    const definition =
      readBeside !== null && doc.body.length > LONG_BODY
        ? await readBeside(doc.body, settings.limits.run)
        : (await readDefinition(source, trusting(settings.limits.run))).definition
    if (definition === null) throw broken(`the definition ${id} was deployed and cannot be read any more`)
    const deployed = { definition, source }
    this.keep(deployed)
    return deployed
  }

  /** Everything was removed (test bench only). */
  forget(): void {
    this.#read.clear()
  }

  async #inForce(name: string): Promise<string | null> {
    const doc = await this.#context.look((reads) => reads.doc(DEFINITION.kind, name))
    return doc === null ? null : readDoc<DeployedName>(doc).version
  }
}

export function definitionOf(
  context: DefinitionsContext,
  name: string,
  version: string | null,
): Promise<Deployed | null> {
  return context.definitions.of(name, version)
}

/** What the reader of definitions has to ask the server. */
export const checksFor = ({ expressions, settings }: DefinitionsContext): DefinitionChecks =>
  checksWith(expressions, settings.limits.run)
