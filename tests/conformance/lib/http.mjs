// One request, one connection: a case must not meet a socket that another one has left half dead.
import { Buffer } from 'node:buffer'
import http from 'node:http'
import https from 'node:https'

export const MEDIA_TYPE = 'application/openjobspec+json'

/** No answer at all: the server is not there, or silent for too long. */
export class NoAnswer extends Error {}

/** `body` is text. Rejects with NoAnswer, or with the signal's reason. */
export function send({ method, url, headers = {}, body, timeoutMs, signal }) {
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const target = new URL(url)
    const { request } = target.protocol === 'https:' ? https : http
    const call = request(target, { method, headers: withLength(headers, body), agent: false, signal })
    const impatience = setTimeout(() => call.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
    const failed = (error) => {
      clearTimeout(impatience)
      reject(signal?.aborted ? signal.reason : new NoAnswer(reasonOf(error)))
    }
    call.on('error', failed)
    call.on('response', (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => (text += chunk))
      response.on('error', failed)
      response.on('end', () => {
        clearTimeout(impatience)
        const ms = performance.now() - began
        resolve({ status: response.statusCode, headers: response.headers, text, ms, ...parsed(text) })
      })
    })
    call.end(body)
  })
}

function withLength(headers, body) {
  const all = { ...headers }
  const given = new Set(Object.keys(all).map((name) => name.toLowerCase()))
  if (body !== undefined && !given.has('content-type')) all['Content-Type'] = MEDIA_TYPE
  if (body !== undefined) all['Content-Length'] = Buffer.byteLength(body)
  return all
}

function parsed(text) {
  try {
    return { isJson: true, json: JSON.parse(text) }
  } catch {
    return { isJson: false, json: undefined }
  }
}

export function reasonOf(error) {
  // Node tries several addresses of a name, and its error then has one for each.
  const all = error.errors?.map((one) => one.message).join(', ')
  return all || error.message || String(error)
}
