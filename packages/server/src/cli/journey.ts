/** `curfew journey …`: the rows of the table. */
import type { Command, Group, Options } from './frame/command.ts'
import { YES } from './frame/confirm.ts'
import { FILE_OPTIONS, ONE, SERVER_OPTIONS } from './frame/flags.ts'
import { cancel, list, result, start, status, submit } from './journey-runs.ts'

const JSON_ONLY: Options = { json: { help: 'print JSON for programs' } }
const INPUT: Options = { input: { value: 'JSON|@FILE', help: 'the input; @- reads the standard input' } }
const WAIT: Options = {
  wait: { help: 'wait for the end' },
  timeout: { value: 'LENGTH', help: 'wait so long at most, such as 30s' },
}

export const JOURNEY_GROUP: Group = {
  name: 'journey',
  summary: 'journeys and their runs',
  more: [
    'Exit codes of commands that end with a run: 0 it succeeded, 3 it failed or was',
    'cancelled, 4 it timed out, 5 it still runs.',
  ],
}

export const JOURNEY_COMMANDS: readonly Command[] = [
  {
    name: 'journey validate',
    args: 'FILE...',
    summary: 'check definitions and print each error with its line; needs no server',
    options: { ...FILE_OPTIONS, ...JSON_ONLY },
    run: async (call) => (await import('./journey-validate.ts')).validate(call),
  },
  {
    name: 'journey simulate',
    args: 'FILE',
    summary: 'show where the time of a run would go, state by state; sends nothing',
    options: {
      set: {
        value: 'STATE=LENGTH',
        many: true,
        help: 'how long a state takes, by path or id; forever: until it is cut off; * for all',
      },
      choose: {
        value: 'STATE=NEXT[,NEXT]',
        many: true,
        help: 'which branch a choice takes, visit by visit [its default]',
      },
      ...FILE_OPTIONS,
      ...JSON_ONLY,
    },
    exits: [3, 4],
    run: async (call) => (await import('./journey-simulate.ts')).simulate(call),
  },
  {
    name: 'journey deploy',
    args: 'FILE...',
    summary: 'deploy definitions to a server',
    options: { ...FILE_OPTIONS, ...SERVER_OPTIONS },
    run: async (call) => (await import('./journey-deploy.ts')).deploy(call),
  },
  {
    name: 'journey start',
    args: 'NAME',
    summary: 'start a run',
    options: {
      ...INPUT,
      version: { value: 'V', help: 'version of the definition [the one in force]' },
      key: { value: 'TEXT', help: 'repeating the command with this key starts no second run' },
      id: { value: 'UUID', help: 'id of the run; repeating the command with it starts no second run' },
      ...WAIT,
      ...ONE,
    },
    exits: [3, 4, 5],
    run: start,
  },
  {
    name: 'journey status',
    args: 'ID',
    summary: 'show the current state of a run and its remaining time',
    options: ONE,
    run: status,
  },
  {
    name: 'journey result',
    args: 'ID',
    summary: 'show how a run ended',
    options: { ...WAIT, ...ONE },
    exits: [3, 4, 5],
    run: result,
  },
  {
    name: 'journey submit',
    args: 'ID STEP',
    summary: 'submit the input that an open step waits for',
    options: { ...INPUT, ...ONE },
    run: submit,
  },
  { name: 'journey cancel', args: 'ID', summary: 'end a run', options: { ...YES, ...ONE }, run: cancel },
  {
    name: 'journey list',
    summary: 'list runs, newest first',
    options: {
      name: { value: 'NAME', help: 'runs of this journey' },
      phase: { value: 'PHASE', help: 'RUNNING, SUCCEEDED or FAILED' },
      tag: { value: 'TAG', help: 'runs with this tag' },
      limit: { value: 'N', help: 'at most so many [50]' },
      ...ONE,
    },
    run: list,
  },
]
