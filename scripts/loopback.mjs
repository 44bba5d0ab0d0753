// Runs a command in a network namespace that has only the loopback interface: webhooks, calls of journeys and the
// address guard are tested without any chance to reach another machine.
import { spawnSync } from 'node:child_process'

/** Set for the command: the tests check that nothing else can be reached. */
export const LOOPBACK_ONLY = 'CURFEW_TESTS_LOOPBACK_ONLY'

const raise = ['sh', '-c', 'ip link set lo up && exec "$0" "$@"']
const ways = [
  ['unshare', '--net', ...raise],
  // Without root: a user namespace of its own, in which the user keeps its name.
  ['unshare', '--user', '--map-current-user', '--keep-caps', '--net', ...raise],
]

/** The words to put before a command, or null where this machine offers no such namespace. */
export function loopbackOnly() {
  const works = ([program, ...args]) => spawnSync(program, [...args, 'true'], { stdio: 'ignore' }).status === 0
  return ways.find(works) ?? null
}
