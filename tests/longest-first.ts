/**
 * The order of test files. vitest begins with the files that took longest before; where it does not know (a clean clone, CI) it
 * begins with the largest. Short files that take long would run last, one of them alone: these go first in their project.
 */
import { BaseSequencer, type TestSpecification } from 'vitest/node'

const LONG = ['cluster/chaos', 'process/conformance', 'process/sdk/outage'].map((name) => `/tests/${name}.test.ts`)

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => LONG.some((path) => moduleId.endsWith(path))
    return [...new Set(sorted.map(({ project }) => project))].flatMap((project) => {
      const own = sorted.filter((file) => file.project === project)
      return [...own.filter(isLong), ...own.filter((file) => !isLong(file))]
    })
  }
}
