/** What a page shows of the server: asked for at once, and again while the page is visible. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get, session } from './api.ts'

export interface Query<T> {
  /** The last answer; null until the first. It stays when a later call fails. */
  readonly data: T | null
  /** Why the last call failed. */
  readonly error: ApiError | null
  readonly refresh: () => void
}

/** `path` null: nothing is asked. `everyMs` null: once. */
export function useQuery<T>(path: string | null, everyMs: number | null = 2_000): Query<T> {
  const [state, setState] = useState<{ path: string | null; data: T | null; error: ApiError | null }>({
    path,
    data: null,
    error: null,
  })
  const again = useRef(() => {})
  const credential = session.value?.name ?? null
  useEffect(() => {
    if (path === null) return
    const over = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let isAsking = false
    let isWanted = false
    const look = async (): Promise<void> => {
      if (isAsking) {
        isWanted = true
        return
      }
      clearTimeout(timer)
      isAsking = true
      isWanted = false
      try {
        const data = await get<T>(path, over.signal)
        setState({ path, data, error: null })
      } catch (caught) {
        if (over.signal.aborted) return
        const error =
          caught instanceof ApiError ? caught : new ApiError(0, 'silent', 'The server does not answer.', null)
        setState((before) => ({ path, data: before.path === path ? before.data : null, error }))
      }
      isAsking = false
      if (isWanted) void look()
      else if (everyMs !== null) timer = setTimeout(onTime, everyMs)
    }
    const onTime = (): void => {
      if (!document.hidden) void look()
    }
    const onShown = (): void => {
      if (!document.hidden) void look()
    }
    again.current = () => void look()
    document.addEventListener('visibilitychange', onShown)
    void look()
    return () => {
      over.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', onShown)
    }
  }, [path, everyMs, credential])
  const isCurrent = state.path === path
  return {
    data: isCurrent ? state.data : null,
    error: isCurrent ? state.error : null,
    refresh: () => {
      again.current()
    },
  }
}
