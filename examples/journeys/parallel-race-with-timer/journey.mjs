import { graph, journey, jsonata, state } from '@curfew/sdk'

export const definition = journey('recommendation', '1.0.0', {
  execution: {
    maxDuration: '5s',
    onTimeout: { errorCode: 'RECOMMENDATION_TIMEOUT', reason: 'there was not even a bestseller' },
  },
  lifecycle: { startMode: 'async' },
  start: 'race',
  states: {
    race: state.parallel({
      branches: {
        personal: graph('ask', {
          ask: state.httpCall({
            method: 'GET',
            url: 'https://taste.example/users/${context.user}/books',
            timeout: '4s',
            resultVar: 'answer',
            next: 'answered',
          }),
          answered: state.choice([{ when: jsonata`context.answer.ok`, next: 'found' }], 'failed'),
          found: state.succeed('answer'),
          failed: state.fail('NO_TASTE', 'the service failed'),
        }),
        patience: graph('sleep', {
          sleep: state.timer({ duration: '2s', next: 'over' }),
          over: state.succeed(),
        }),
      },
      strategy: 'anyOf',
      mapper: jsonata`
        $exists(branches.personal)
          ? { "book": branches.personal.body.book, "personal": true }
          : { "book": "The bestseller", "personal": false }
      `,
      resultVar: 'recommendation',
      next: 'done',
    }),
    done: state.succeed('recommendation'),
  },
})
