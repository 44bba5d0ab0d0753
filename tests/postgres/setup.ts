/** One PostgreSQL for all stories of the project. */
import type { TestProject } from 'vitest/node'
import { testServer } from './cluster.ts'

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, cluster } = await testServer()
  project.provide('database', url)
  return async () => cluster?.remove()
}
