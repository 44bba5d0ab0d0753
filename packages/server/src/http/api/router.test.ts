import { describe, expect, test } from 'vitest'
import { Router } from './router.ts'

function routerOf(...routes: readonly string[]): Router<string> {
  const router = new Router<string>()
  for (const route of routes) {
    const [method = '', path = ''] = route.split(' ')
    router.add(method, path, route)
  }
  return router
}

describe('a router', () => {
  const router = routerOf(
    'GET /',
    'GET /jobs',
    'POST /jobs',
    'GET /jobs/:id',
    'POST /jobs/batch',
    'GET /jobs/:id/result',
    'GET /queues/:name/jobs/all',
    'POST /files/list',
    'POST /files/*path',
  )

  test.each([
    ['GET', '/', {}],
    ['POST', '/jobs', {}],
    ['POST', '/jobs/batch', {}],
  ])('finds a path without names: %s %s', (method, path, params) => {
    expect(router.match(method, path)).toEqual({ kind: 'found', route: `${method} ${path}`, params })
  })

  test.each([
    ['/jobs/7', 'GET /jobs/:id', { id: '7' }],
    ['/jobs/a%2Fb', 'GET /jobs/:id', { id: 'a/b' }],
    ['/jobs/:id', 'GET /jobs/:id', { id: ':id' }],
    ['/jobs/batch/result', 'GET /jobs/:id/result', { id: 'batch' }],
    ['/queues/q/jobs/all', 'GET /queues/:name/jobs/all', { name: 'q' }],
  ])('fills in the names of %s', (path, route, params) => {
    expect(router.match('GET', path)).toEqual({ kind: 'found', route, params })
  })

  test.each([
    ['/files/a', { path: 'a' }],
    ['/files/a/b%20c/list', { path: 'a/b%20c/list' }],
    ['/files/list/all', { path: 'list/all' }],
  ])('takes all of %s that is left', (path, params) => {
    expect(router.match('POST', path)).toEqual({ kind: 'found', route: 'POST /files/*path', params })
    expect(router.match('GET', path)).toEqual({ kind: 'wrong-method', allow: ['POST'] })
    expect(router.match('POST', '/files/list')).toMatchObject({ route: 'POST /files/list' })
  })

  test('a literal path wins over a name, and tells which methods it takes', () => {
    expect(router.match('GET', '/jobs/batch')).toEqual({ kind: 'wrong-method', allow: ['POST'] })
    expect(router.match('PUT', '/jobs')).toEqual({ kind: 'wrong-method', allow: ['GET', 'POST'] })
  })

  test.each(['/jobs/', '//jobs', 'jobs', '/jobs/7/', '/queues/q', '/jobs/%zz', '/files', '/files/', '/jobs/7/8'])(
    'knows nothing of "%s"',
    (path) => {
      expect(router.match('GET', path)).toEqual({ kind: 'unknown' })
    },
  )

  test('refuses the same place twice, and two names for one place', () => {
    expect(() => routerOf('GET /jobs', 'GET /jobs')).toThrow('twice')
    expect(() => routerOf('GET /jobs/:id', 'GET /jobs/:name/result')).toThrow('two names')
  })
})
