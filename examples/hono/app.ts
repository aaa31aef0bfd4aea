// A small library on Hono whose operations models may call: `npm install`, then `npm start`.
// Node 22.18 or later runs TypeScript as it is.
import { serve } from '@hono/node-server'
import { OpenAPIHono, createRoute, z } from '@hono/zod-openapi'

type Book = { id: number; title: string; lentTo: string | null }

const shelf = new Map<number, Book>([
  [1, { id: 1, title: 'Walden', lentTo: null }],
  [2, { id: 2, title: 'Emma', lentTo: 'Ada' }],
])

const BookSchema = z
  .object({ id: z.int(), title: z.string(), lentTo: z.string().nullable() })
  .openapi('Book')
// A path is text, which zod turns into a number; the document says what a caller has to give.
const id = z.object({
  id: z.string().transform(Number).pipe(z.int()).openapi({ type: 'integer', description: 'The number of the book' }),
})
const found = { description: 'The book', content: { 'application/json': { schema: BookSchema } } }
const missing = { description: 'There is no such book' }

export const app = new OpenAPIHono()

app.openapi(
  createRoute({
    method: 'get',
    path: '/books',
    operationId: 'listBooks',
    summary: 'List the books of the library',
    'x-llm': { approval: 'auto', hint: 'Use it to find the number of a book.' },
    responses: {
      200: { description: 'All books', content: { 'application/json': { schema: z.array(BookSchema) } } },
    },
  }),
  (context) => context.json([...shelf.values()], 200),
)

app.openapi(
  createRoute({
    method: 'post',
    path: '/books/{id}/loan',
    operationId: 'lendBook',
    summary: 'Lend a book to a reader',
    'x-llm': { approval: 'per-call', question: 'Lend book {/id} to {/reader}?' },
    request: {
      params: id,
      body: {
        required: true,
        content: { 'application/json': { schema: z.object({ reader: z.string().min(1) }) } },
      },
    },
    responses: { 200: found, 404: missing, 409: { description: 'Somebody has it' } },
  }),
  (context) => {
    const book = shelf.get(context.req.valid('param').id)
    if (!book) return context.body(null, 404)
    if (book.lentTo) return context.body(null, 409)
    book.lentTo = context.req.valid('json').reader
    return context.json(book, 200)
  },
)

app.openapi(
  createRoute({
    method: 'delete',
    path: '/books/{id}',
    operationId: 'discardBook',
    summary: 'Take a book out of the library for good',
    'x-llm': { approval: 'per-call', destructive: true },
    request: { params: id },
    responses: { 204: { description: 'It is gone' }, 404: missing },
  }),
  (context) => context.body(null, shelf.delete(context.req.valid('param').id) ? 204 : 404),
)

// An operation without x-llm is no tool.
app.get('/health', (context) => context.text('ok'))

// What a client with the site's URL reads first, and the document that it names.
const text = JSON.stringify(
  app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: { title: 'Library', version: '1.0.0' },
    'x-llm': { version: '0.1', name: 'Library' },
  }),
)
for (const path of ['/openapi.json', '/.well-known/openapi.json']) {
  app.get(path, (context) => context.body(text, 200, { 'content-type': 'application/json' }))
}
app.get('/.well-known/llm.json', (context) => context.json({ openapi: '/openapi.json' }))

const port = Number(process.env.PORT ?? 9660)
serve({ fetch: app.fetch, hostname: '127.0.0.1', port }, (at) => console.log(`http://127.0.0.1:${at.port}`))
