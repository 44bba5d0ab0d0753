function busyWhileLoading() {
  for (;;);
}
busyWhileLoading()
export const handler = () => null
