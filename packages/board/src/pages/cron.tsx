export function CronPage() {
  return <h1>todo</h1>
}
