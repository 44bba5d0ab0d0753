import { api, jsonata, schema, state } from '@curfew/sdk'

const ask = (host, next) =>
  state.httpCall({
    method: 'GET',
    url: `https://${host}.example/quotes/\${context.sku}`,
    timeout: '1500ms',
    resultVar: 'quote',
    next,
  })

export const definition = api('price-quote', '1.0.0', {
  execution: {
    maxDuration: '2s',
    onTimeout: { errorCode: 'QUOTE_TIMEOUT', reason: 'no price within two seconds' },
  },
  input: schema({ type: 'object', required: ['sku'], properties: { sku: { type: 'string' } } }),
  http: {
    apiResponses: {
      rules: [
        { when: { phase: 'FAILED', errorType: 'QUOTE_TIMEOUT' }, status: 503 },
        { when: { phase: 'FAILED', errorType: 'NO_PRICE' }, status: 502 },
      ],
      default: { SUCCEEDED: 200, FAILED: 'fromProblemStatus' },
    },
  },
  start: 'ask',
  states: {
    ask: ask('pricing', 'answered'),
    answered: state.choice([{ when: jsonata`context.quote.ok`, next: 'price' }], 'askBackup'),
    askBackup: ask('backup', 'backupAnswered'),
    backupAnswered: state.choice([{ when: jsonata`context.quote.ok`, next: 'price' }], 'none'),
    price: state.transform({
      mapper: jsonata`{ "sku": context.sku, "price": context.quote.body.price, "from": context.quote.body.from }`,
      resultVar: 'answer',
      next: 'done',
    }),
    done: state.succeed('answer'),
    none: state.fail('NO_PRICE', 'no price found for ${context.sku}'),
  },
})
