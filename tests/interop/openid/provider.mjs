// An OpenID provider of another maker, for the tests of people who sign in at an external issuer.
// Its settings are the JSON in the variable SETTINGS: port, redirect_uris, secret, and the accounts by their subjects.
import Provider from 'oidc-provider'

const settings = JSON.parse(process.env.SETTINGS)
const { port, redirect_uris, secret, accounts } = settings
const issuer = `http://127.0.0.1:${port}`

const provider = new Provider(issuer, {
  clients: [{ client_id: 'gateway', client_secret: secret, redirect_uris }],
  claims: { openid: ['sub'], profile: ['name', 'preferred_username'], groups: ['groups'] },
  scopes: ['openid', 'profile', 'groups'],
  conformIdTokenClaims: settings.thin_tokens ?? true,
  findAccount: (_context, sub) => accounts[sub] && { accountId: sub, claims: () => ({ sub, ...accounts[sub] }) },
  cookies: { keys: ['tests'] }
})
provider.listen(port, '127.0.0.1')
