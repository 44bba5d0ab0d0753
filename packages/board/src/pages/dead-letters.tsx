export function DeadLetters() {
  return <h1>todo</h1>
}
