await new Promise((resolve) => setTimeout(resolve, 1_500))
export const handler = () => 'too late'
