/** A token for a session. */
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError, signIn } from '../api.ts'
import { go, path } from '../router.ts'

export function SignIn(): JSX.Element {
  const [problem, setProblem] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  return (
    <main class="signin">
      <h1 tabIndex={-1}>Sign in to Curfew</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          const token = new FormData(event.currentTarget).get('token')
          setBusy(true)
          signIn(typeof token === 'string' ? token.trim() : '').then(
            () => {
              if (path.value === '/sign-in') go('/')
            },
            (error: unknown) => {
              setBusy(false)
              setProblem(error instanceof ApiError ? error.message : 'The server does not answer.')
            },
          )
        }}
      >
        <label class="stacked">
          Token
          <input name="token" type="password" required autocomplete="current-password" />
        </label>
        {problem === null ? null : (
          <p class="trouble" role="alert">
            {problem}
          </p>
        )}
        <button type="submit" class="main" disabled={isBusy}>
          Sign in
        </button>
      </form>
      <p class="soft">
        The token is exchanged for a session of 12 hours. Make one with <code>curfew token create</code>.
      </p>
    </main>
  )
}
