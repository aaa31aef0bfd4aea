// An OpenID provider of another maker, for the tests of people who sign in at an external issuer.
// Its settings are the JSON in the variable SETTINGS: port, redirect_uris, secret, and the accounts by their subjects.
// With `scopes`, it issues tokens for any resource to a client called `native`, and `clock` names the file that says by
// how many seconds its clock is ahead.
import { readFileSync } from 'node:fs'
import Provider from 'oidc-provider'

const settings = JSON.parse(process.env.SETTINGS)
const { port, redirect_uris, secret, accounts, scopes, clock } = settings
const issuer = `http://127.0.0.1:${port}`
const now = Date.now
if (clock) Date.now = () => now() + 1000 * Number(readFileSync(clock, 'utf8'))

const native = {
  client_id: 'native',
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  grant_types: ['authorization_code', 'refresh_token'],
  redirect_uris: ['http://127.0.0.1/callback']
}
const resources = {
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, resource) => ({
        scope: scopes,
        audience: resource,
        accessTokenFormat: 'jwt',
        accessTokenTTL: settings.token_s ?? 600,
        jwt: { sign: { alg: 'RS256' } }
      })
    }
  },
  ttl: { Grant: 400 * 86_400 }
}
const provider = new Provider(issuer, {
  clients: [{ client_id: 'gateway', client_secret: secret, redirect_uris }, ...(scopes ? [native] : [])],
  claims: { openid: ['sub'], profile: ['name', 'preferred_username'], groups: ['groups'] },
  scopes: ['openid', 'offline_access', 'profile', 'groups'],
  conformIdTokenClaims: settings.thin_tokens ?? true,
  findAccount: (_context, sub) => accounts[sub] && { accountId: sub, claims: () => ({ sub, ...accounts[sub] }) },
  cookies: { keys: ['tests'] },
  ...(scopes ? resources : {})
})
provider.listen(port, '127.0.0.1')
