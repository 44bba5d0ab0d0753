/** `curfew journey …`: one word, one command. */
import { SettingsError } from '../settings.ts'
import { deploy } from './journey-deploy.ts'
import { EXIT } from './journey-exit.ts'
import type { Terminal } from './journey-flags.ts'
import { cancel, list, result, start, status, submit } from './journey-runs.ts'
import { simulate } from './journey-simulate.ts'
import { validate } from './journey-validate.ts'

/** Gives the exit code. */
type Command = (args: readonly string[], terminal: Terminal) => Promise<number>

const COMMANDS: Readonly<Record<string, Command>> = {
  validate,
  simulate,
  deploy,
  start,
  status,
  result,
  submit,
  cancel,
  list,
}

export const JOURNEY_HELP = [
  'Usage',
  '  curfew journey validate FILE...  check definitions; prints each error with its line; needs no server',
  '  curfew journey deploy FILE...  deploy definitions to a server',
  '  curfew journey simulate FILE   show where the time of a run would go, state by state; sends nothing',
  "    --set 'STATE=2s'             how long a state takes, by path or id; forever: until it is cut off; * for all",
  '    --choose STATE=NEXT[,NEXT]   which branch a choice takes, visit by visit [its default]',
  '    --root DIR                   another folder with the files that openApiRef names',
  '    --run-default, --run-cap     the limits of the server it would run on [1d, 7d]',
  '  curfew journey start NAME      start a run: --input JSON|@FILE, --version V, --wait [--timeout 30s];',
  '                                 --key TEXT or --id UUID: repeating the command starts no second run',
  '  curfew journey status ID       its current state and remaining time',
  '  curfew journey result ID       how it ended: --wait [--timeout 30s]',
  '  curfew journey submit ID STEP  submit the input an open step waits for: --input JSON|@FILE',
  '  curfew journey cancel ID       end it',
  '  curfew journey list            runs, newest first: --name NAME, --phase PHASE, --tag TAG, --limit 50',
  '',
  'Server flags: --url URL (CURFEW_URL) [http://127.0.0.1:8080], --token TOKEN (CURFEW_TOKEN)',
  'All commands: --json prints JSON for programs. @- is the standard input.',
  '',
  'Exit codes:  0 success, and the run succeeded   1 refused, no answer, or an invalid definition',
  '             2 wrong usage   3 the run failed or was cancelled   4 the run timed out   5 still running',
].join('\n')

export async function runJourney(args: readonly string[], terminal: Terminal): Promise<number> {
  const [word, ...rest] = args
  if (word === undefined || word === 'help' || args.includes('--help') || args.includes('-h')) {
    terminal.write(JOURNEY_HELP)
    return EXIT.fine
  }
  const command = Object.hasOwn(COMMANDS, word) ? COMMANDS[word] : undefined
  if (command === undefined)
    throw new SettingsError(`Unknown command ${JSON.stringify(`journey ${word}`)}. See curfew journey --help.`)
  return command(rest, terminal)
}
