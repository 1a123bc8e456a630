// Row platformatic: @platformatic/kafka (Apache-2.0).

const { Admin, Consumer, Producer, ConfigResourceTypes, IncrementalAlterConfigOperationTypes: Change, ListOffsetTimestamps } = require('@platformatic/kafka')
const { RECORDS, Skip, TOO_LARGE, expect, fill, run, settle, sleep, values } = require('./operations.js')

/** The name of the error with which a call ends. */
async function refusal (call) {
  try {
    await call()
    return 'NO_ERROR'
  } catch (error) {
    return nameOf(error)
  }
}

/** Kafka's name of an error, however deep this client has wrapped it, with the broker's text. */
function nameOf (error) {
  if (error.apiId) return error.serverErrorMessage ? `${error.apiId}: ${error.serverErrorMessage}` : error.apiId
  const inner = error.errors?.at(-1) ?? error.cause
  if (!inner) return `${error.name}: ${error.message}`
  return nameOf(inner)
}

const text = buffer => buffer?.toString() ?? null

class Client {
  constructor (address) {
    this.options = { clientId: 'row', bootstrapBrokers: [address], retries: 100, retryDelay: 100, timeout: 20_000 }
    this.admin = new Admin({ ...this.options, retries: 1 })
    this.readers = 0
  }

  // ---- helpers

  async create (topic, partitions = 1, configs = []) {
    await this.admin.createTopics({ topics: [topic], partitions, replicas: 1, configs })
    for (let known = false; !known; await sleep(20)) {
      const metadata = await this.admin.metadata({ topics: [topic], forceUpdate: true }).catch(() => null)
      known = metadata?.topics.get(topic)?.partitions.every(each => each.leader >= 0)
    }
  }

  /** Sends them in one request, and returns the first offset of each partition. */
  async produce (topic, messages, options = {}) {
    const producer = new Producer({ ...this.options, autocreateTopics: false })
    try {
      const buffer = data => typeof data === 'string' ? Buffer.from(data) : data
      const answer = await producer.send({
        acks: -1,
        ...options,
        messages: messages.map(({ key, value, headers = [], ...rest }) => ({ topic, ...rest, key: buffer(key), value: buffer(value), headers: new Map(headers.map(each => each.map(buffer))) })),
      })
      return (answer.offsets ?? []).map(each => each.offset)
    } finally {
      await producer.close()
    }
  }

  consumer (group, options = {}) {
    return new Consumer({ ...this.options, groupId: group, autocommit: false, maxWaitTime: 100, minBytes: 1, heartbeatInterval: 200, sessionTimeout: 20_000, ...options })
  }

  /** Messages of a partition from an offset on, by a group of its own: this client has no other way. */
  async read (topic, count, partition = 0, offset = 0) {
    const consumer = this.consumer(`reader-${this.readers++}`)
    const partitions = (await this.admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitionsCount
    const offsets = Array.from({ length: partitions }, (_, each) => ({ topic, partition: each, offset: BigInt(each === partition ? offset : 0) }))
    const stream = await consumer.consume({ topics: [topic], mode: 'manual', offsets })
    const messages = []
    for await (const message of stream) {
      if (message.partition === partition) messages.push(message)
      if (messages.length >= count) break
    }
    await consumer.close(true)
    return messages
  }

  async member (group, topics, { instance, strategy } = {}) {
    if (instance) throw new Skip('it leaves the group when it closes, also with a group.instance.id')
    const protocols = [strategy ? { name: strategy, version: 3 } : { name: 'roundrobin', version: 1 }]
    const consumer = this.consumer(group, { protocols })
    const member = { seen: [], changes: [], assigned: [] }
    member.owned = () => member.assigned
    const changed = () => {
      const before = member.assigned
      const now = (consumer.assignments ?? []).flatMap(({ topic, partitions }) => partitions.map(partition => `${topic}:${partition}`)).sort()
      const taken = before.filter(each => !now.includes(each)).length; const given = now.filter(each => !before.includes(each)).length
      if (taken) member.changes.push(`-${taken}`)
      if (given) member.changes.push(`+${given}`)
      member.assigned = now
    }
    consumer.on('consumer:group:join', changed)
    consumer.on('consumer:group:rebalance', changed)
    const stream = await consumer.consume({ topics, mode: 'committed', fallbackMode: 'earliest' })
    stream.on('data', message => member.seen.push(`${message.partition}:${String(message.offset).padStart(3, '0')}`))
    stream.on('error', () => {}) // of the one that is fenced; its commit tells
    member.commit = (topic, offsets) => refusal(() => consumer.commit({ offsets: Object.entries(offsets).map(([partition, offset]) => ({ topic, partition: Number(partition), offset: BigInt(offset), leaderEpoch: 0 })) }))
    member.close = () => consumer.close(true)
    return member
  }

  async offsets (group) {
    const [answer] = await this.admin.listConsumerGroupOffsets({ groups: [group] })
    return answer.topics.flatMap(({ name, partitions }) => partitions.map(each => `${name}-${each.partitionIndex}:${each.committedOffset}:${each.committedLeaderEpoch}`)).sort()
  }

  async committed (group) {
    return (await this.offsets(group)).map(each => each.split(':')[1]).join(' ')
  }

  async offset (topic, timestamp) {
    const [answer] = await this.admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] })
    return answer.partitions[0].offset
  }

  // ---- operations

  async connect () {
    const metadata = await this.admin.metadata({})
    return `cluster ${metadata.id}, nodes ${[...metadata.brokers.keys()]}, controller ${metadata.controllerId}`
  }

  async createTopic () {
    await this.create('matrix', 3, [{ name: 'retention.ms', value: '3600000' }])
    const errors = []
    for (const [name, partitions, replicas, configs] of [['matrix', 3, 1], ['too.many', 1, 3], ['bad name', 1, 1], ['none', 0, 1],
      ['config', 1, 1, [{ name: 'retention.ms', value: 'soon' }]], ['key', 1, 1, [{ name: 'no.such.key', value: '1' }]]]) {
      errors.push(await refusal(() => this.admin.createTopics({ topics: [name], partitions, replicas, configs })))
    }
    const [made] = await this.admin.createTopics({ topics: ['defaults'] })
    return `refused ${errors.join('; ')}; by default ${made.partitions} partitions, ${made.replicas} replicas, ${Object.keys(made.configuration).length} settings`
  }

  async describe () {
    const { topics } = await this.admin.metadata({ topics: ['matrix'], forceUpdate: true })
    const partitions = topics.get('matrix').partitions.map(each => [each.leader, each.leaderEpoch, each.replicas, each.isr])
    const unknown = await refusal(() => this.admin.metadata({ topics: ['no.where'], forceUpdate: true }))
    return `partitions ${JSON.stringify(partitions)}, unknown ${unknown}, listed ${(await this.admin.listTopics()).sort()}`
  }

  async acks () {
    await this.create('acks')
    const sent = []
    for (const acks of [-1, 1, 0]) {
      const some = values(`acks ${acks}`, 10)
      await this.produce('acks', some.map(value => ({ partition: 0, value })), { acks })
      sent.push(...some)
    }
    expect('read', (await this.read('acks', 30)).map(each => text(each.value)), sent)
    return '30 records'
  }

  async codec (codec) {
    await this.create(codec)
    const sent = values(codec, 1000)
    const first = await this.produce(codec, sent.map(value => ({ partition: 0, value })), { compression: codec })
    expect('read', (await this.read(codec, 1000)).map(each => text(each.value)), sent)
    return `1000 records from ${first}`
  }

  async idempotent () {
    await this.create('idempotent', 3)
    const sent = Array.from({ length: 10_000 }, (_, number) => ({ partition: number % 3, value: String(number) }))
    await this.produce('idempotent', sent, { idempotent: true })
    for (const partition of [0, 1, 2]) {
      const wanted = sent.filter(each => each.partition === partition).map(each => each.value)
      expect('read', (await this.read('idempotent', wanted.length, partition)).map(each => text(each.value)), wanted)
    }
    return '10000 records, none twice, in order'
  }

  async records () {
    await this.create('records')
    await this.produce('records', RECORDS.map(({ key, value, headers }) => ({ partition: 0, key: key ?? undefined, value: value ?? undefined, headers })))
    const seen = (await this.read('records', RECORDS.length)).map(({ key, value, headerEntries }) => [text(key), text(value), headerEntries.map(each => each.map(text))])
    expect('read', seen, RECORDS.map(({ key, value, headers = [] }) => [key, value, headers]))
    return `${RECORDS.length} records, too large: ${await refusal(() => this.produce('records', [{ partition: 0, value: TOO_LARGE }]))}`
  }

  async seek () {
    await this.create('seek')
    const first = (Math.floor(Date.now() / 1000) - 3600) * 1000
    await this.produce('seek', Array.from({ length: 100 }, (_, number) => ({ partition: 0, value: 'x', timestamp: BigInt(first + number * 1000) })))
    expect('at 50', (await this.read('seek', 1, 0, 50))[0].timestamp.toString(), String(first + 50_000))
    const looked = []
    for (const time of [ListOffsetTimestamps.EARLIEST, ListOffsetTimestamps.LATEST, ListOffsetTimestamps.MAX, ListOffsetTimestamps.EARLIEST_LOCAL, 0n,
      BigInt(first + 49_001), BigInt(first + 99_000), BigInt(first + 99_001)]) looked.push(await this.offset('seek', time))
    return `looked up ${looked}`
  }

  async addPartitions () {
    const grow = count => refusal(() => this.admin.createPartitions({ topics: [{ name: 'matrix', count }] }))
    const outcomes = [await grow(5), await grow(5), await grow(2)]
    await this.produce('matrix', [{ partition: 4, value: 'fifth' }])
    expect('read', text((await this.read('matrix', 1, 4))[0].value), 'fifth')
    return outcomes.join('; ')
  }

  async configs () {
    const alter = (name, value, configOperation) => refusal(() => this.admin.incrementalAlterConfigs({
      resources: [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: 'matrix', configs: [{ name, value, configOperation }] }],
    }))
    const outcomes = [await alter('max.message.bytes', '2000000', Change.SET), await alter('retention.ms', undefined, Change.DELETE),
      await alter('cleanup.policy', 'compact', Change.APPEND), await alter('cleanup.policy', 'delete', Change.SUBTRACT),
      await alter('retention.ms', 'soon', Change.SET), await alter('no.such.key', '1', Change.SET)]
    const describe = async (resourceType, resourceName) => (await this.admin.describeConfigs({ includeSynonyms: true, resources: [{ resourceType, resourceName }] }))[0].configs
    const topic = (await describe(ConfigResourceTypes.TOPIC, 'matrix')).map(each => `${each.name}=${each.value}/${each.configSource}/${each.configType}[${each.synonyms.map(it => it.name)}]`).sort()
    const broker = (await describe(ConfigResourceTypes.BROKER, '1')).find(each => each.name === 'message.max.bytes').value
    const unknown = await refusal(() => describe(ConfigResourceTypes.TOPIC, 'nowhere'))
    return `altered ${outcomes.join('; ')}; broker ${broker}, unknown ${unknown}, topic ${topic.join(' ')}`
  }

  async deleteRecords () {
    await this.create('delete.records')
    await this.produce('delete.records', values('delete', 100).map(value => ({ partition: 0, value })))
    const remove = offset => refusal(() => this.admin.deleteRecords({ topics: [{ name: 'delete.records', partitions: [{ partition: 0, offset: BigInt(offset) }] }] }))
    const outcomes = []
    for (const offset of [40, 1000, -1]) outcomes.push(`${offset} ${await remove(offset)} earliest ${await this.offset('delete.records', ListOffsetTimestamps.EARLIEST)}`)
    return outcomes.join(', ')
  }

  async deleteTopic () {
    const remove = () => refusal(() => this.admin.deleteTopics({ topics: ['matrix'] }))
    const deleted = await remove()
    expect('still listed', (await this.admin.listTopics()).includes('matrix'), false)
    const again = await remove()
    await this.create('matrix')
    return `${deleted}, again ${again}, created anew, first offset ${await this.produce('matrix', [{ partition: 0, value: 'new' }])}`
  }

  async groupsAdmin () {
    const group = 'admin'; const topics = ['admin.one', 'admin.two']
    for (const topic of topics) await fill(this, topic, 1, 10)
    const member = await this.member(group, topics)
    await settle([member], 2)
    await member.commit('admin.one', { 0: 3 })
    await member.commit('admin.two', { 0: 4 })
    const described = async () => {
      const it = (await this.admin.describeGroups({ groups: [group] })).get(group)
      return `${it.state} ${it.protocolType} ${it.protocol} members ${[...it.members.values()].map(each => [...(each.assignments?.keys() ?? [])].sort())}`
    }
    const listed = async options => [...(await this.admin.listGroups(options)).values()].filter(each => each.id === group).map(each => `${each.state} ${each.groupType} ${each.protocolType}`)
    const remove = () => refusal(() => this.admin.deleteGroups({ groups: [group] }))
    const removeOffset = () => refusal(() => this.admin.deleteConsumerGroupOffsets({ groupId: group, topics: [{ name: 'admin.one', partitionIndexes: [0] }] }))
    const alter = () => refusal(() => this.admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: 'admin.two', partitionOffsets: [{ partition: 0, offset: 7n }] }] }))
    const seen = [`active ${await described()}`, `offsets ${await this.offsets(group)}`, `delete ${await remove()}`, `delete an offset ${await removeOffset()}`, `alter ${await alter()}`]
    await member.close()
    seen.push(`left ${await described()}`, `listed ${await listed()}`, `stable ${await listed({ states: ['STABLE'] })}`, `empty ${await listed({ states: ['EMPTY'] })}`,
      `consumer ${await listed({ types: ['consumer'] })}`, `alter ${await alter()}`, `delete an offset ${await removeOffset()}`, `offsets ${await this.offsets(group)}`,
      `delete ${await remove()}`, `again ${await remove()}`, `gone ${await refusal(described)}`)
    return seen.join('; ')
  }
}

run(new Client(process.argv[2]))
