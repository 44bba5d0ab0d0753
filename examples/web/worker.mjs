// The worker as a process of its own. SIGTERM lets it finish what it has, for `drain` at most; the exit code is 0.
import { makeWorker } from './reports.mjs'

await makeWorker().run()
