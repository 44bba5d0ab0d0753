import { api, graph, jsonata, schema, state } from '@curfew/sdk'

const ask = (host, timeout) =>
  graph('ask', {
    ask: state.httpCall({
      method: 'GET',
      url: `https://${host}.example/\${context.user}`,
      timeout,
      resultVar: 'answer',
      next: 'done',
    }),
    done: state.succeed('answer'),
  })

export const definition = api('start-page', '1.0.0', {
  execution: {
    maxDuration: '1s',
    onTimeout: { errorCode: 'PAGE_TIMEOUT', reason: 'the page took longer than a second' },
  },
  input: schema({ type: 'object', required: ['user'], properties: { user: { type: 'string' } } }),
  http: { apiResponses: { rules: [{ when: { phase: 'FAILED', errorType: 'NO_PROFILE' }, status: 502 }] } },
  start: 'gather',
  states: {
    gather: state.parallel({
      branches: { profile: ask('profiles', '5s'), orders: ask('orders', '600ms'), offers: ask('offers', '300ms') },
      strategy: 'allOf',
      mapper: jsonata`
        {
          "known": branches.profile.ok,
          "name": branches.profile.body.name,
          "orders": branches.orders.ok ? branches.orders.body.items : [],
          "offers": branches.offers.ok ? branches.offers.body.items : []
        }
      `,
      resultVar: 'page',
      next: 'known',
    }),
    known: state.choice([{ when: jsonata`context.page.known`, next: 'done' }], 'unknown'),
    done: state.succeed('page'),
    unknown: state.fail('NO_PROFILE', 'there is no profile of ${context.user}'),
  },
})
