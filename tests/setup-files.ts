/**
 * What every file of the projects `unit` and `postgres` begins with. Files of these projects share the modules they import,
 * so a hook in a shared module would belong to the first file alone; hooks for all files are here.
 */
import { afterEach } from 'vitest'
import { showTroubles } from './harness.ts'
import { shelveStores } from './stores.ts'

afterEach(async ({ task }) => {
  showTroubles(task)
  await shelveStores()
})
