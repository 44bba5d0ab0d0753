// Paths into a JSON document, as the cases write them:
//
//   $.job.error.type      $.jobs[0].id      $.events[*].type      $.jobs[?(@.id=='x')].state      $.meta["a.b"].c
//
// What is not there is MISSING, which is not null: whether the two count as the same is for the matcher to say.

export const MISSING = Symbol('missing')

/** @returns {Array<{key: string} | {index: number} | {each: true} | {where: string[], is: string}>} */
export function parsePath(path) {
  const parts = []
  let at = path.startsWith('$') ? 1 : 0
  const wrong = () => new SyntaxError(`the path ${JSON.stringify(path)} makes no sense at character ${at + 1}`)
  while (at < path.length) {
    if (path[at] === '[') {
      const end = closing(path, at)
      if (end < 0) throw wrong()
      const part = bracket(path.slice(at + 1, end))
      if (part === null) throw wrong()
      parts.push(part)
      at = end + 1
      continue
    }
    if (path[at] === '.') at += 1
    const key = /^[^.[\]]+/.exec(path.slice(at))?.[0]
    if (key === undefined) throw wrong()
    parts.push(key === '*' ? { each: true } : { key })
    at += key.length
  }
  return parts
}

/** The bracket that closes the one at `from`; those within quotes do not count. */
function closing(path, from) {
  let quote = null
  for (let i = from + 1; i < path.length; i += 1) {
    const c = path[i]
    if (quote !== null) quote = c === quote ? null : quote
    else if (c === "'" || c === '"') quote = c
    else if (c === ']') return i
  }
  return -1
}

function bracket(inside) {
  if (inside === '*') return { each: true }
  if (/^\d+$/.test(inside)) return { index: Number(inside) }
  const quoted = /^(['"])(.*)\1$/s.exec(inside)
  if (quoted) return { key: quoted[2] }
  const filter = /^\?\(\s*@\.([\w.-]+)\s*==\s*(.*?)\s*\)$/s.exec(inside)
  if (filter) return { where: filter[1].split('.'), is: filter[2].replace(/^(['"])(.*)\1$/s, '$2') }
  return null
}

/** The value at the path; an array where the path has a `[*]`; else MISSING. */
export function at(path, document) {
  return follow(typeof path === 'string' ? parsePath(path) : path, document)
}

function follow(parts, value) {
  if (parts.length === 0 || value === MISSING) return value
  const [part, ...rest] = parts
  if (part.key !== undefined) return member(parts, value)
  if (!Array.isArray(value)) return MISSING
  if (part.index !== undefined) return part.index < value.length ? follow(rest, value[part.index]) : MISSING
  if (part.each) return value.map((item) => follow(rest, item)).filter((found) => found !== MISSING && found !== null)
  const keys = part.where.map((key) => ({ key }))
  const hit = value.find((item) => text(follow(keys, item)) === part.is)
  return hit === undefined ? MISSING : follow(rest, hit)
}

/** A key may itself hold dots ("ojs.codec.key_id"), so the longer names are tried when the short one leads nowhere. */
function member(parts, value) {
  if (!isObject(value)) return MISSING
  let key = ''
  for (let taken = 0; parts[taken]?.key !== undefined; taken += 1) {
    key += (taken === 0 ? '' : '.') + parts[taken].key
    const found = Object.hasOwn(value, key) ? follow(parts.slice(taken + 1), value[key]) : MISSING
    if (found !== MISSING) return found
  }
  return MISSING
}

export function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** As it stands within a longer text: strings as they are, everything else as JSON. */
export function text(value) {
  return typeof value === 'string' ? value : String(JSON.stringify(value))
}
