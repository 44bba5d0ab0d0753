import { journey, jsonata, schema, state } from '@curfew/sdk'

export const definition = journey('export', '1.0.0', {
  execution: {
    maxDuration: '10s',
    onTimeout: { errorCode: 'EXPORT_TIMEOUT', reason: 'the export was not ready within ten seconds' },
  },
  lifecycle: { startMode: 'async' },
  defaults: { http: { timeout: '4s' } },
  input: schema({ type: 'object', required: ['export'], properties: { export: { type: 'string' } } }),
  start: 'begin',
  states: {
    begin: state.transform({ mapper: jsonata`0`, resultVar: 'tries', next: 'ask' }),
    ask: state.httpCall({
      method: 'GET',
      url: 'https://exports.example/exports/${context.export}',
      resultVar: 'answer',
      next: 'count',
    }),
    count: state.transform({ mapper: jsonata`context.tries + 1`, resultVar: 'tries', next: 'look' }),
    look: state.choice(
      [
        { when: jsonata`context.answer.ok and context.answer.body.ready = true`, next: 'ready' },
        { when: jsonata`context.tries >= ${5}`, next: 'givenUp' },
      ],
      'rest',
    ),
    rest: state.timer({ duration: '1s', next: 'ask' }),
    ready: state.transform({
      mapper: jsonata`{ "url": context.answer.body.url, "tries": context.tries }`,
      resultVar: 'result',
      next: 'done',
    }),
    done: state.succeed('result'),
    givenUp: state.fail('EXPORT_NOT_READY', 'not ready after ${context.tries} tries'),
  },
})
