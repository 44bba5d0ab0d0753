export function SignIn() {
  return <h1>todo</h1>
}
