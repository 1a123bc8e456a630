// Row kafkajs (MIT), with kafkajs-snappy (MIT), LZ4 of @platformatic/wasm-utils (Apache-2.0) and Node's own zstd.

const zlib = require('node:zlib')
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require('kafkajs')
const { lz4Compress, lz4Decompress } = require('@platformatic/wasm-utils')
const snappy = require('kafkajs-snappy')
const { RECORDS, Skip, TOO_LARGE, expect, fill, run, settle, until, values } = require('./operations.js')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({ compress: async encoder => lz4Compress(encoder.buffer), decompress: async buffer => lz4Decompress(buffer) })
CompressionCodecs[CompressionTypes.ZSTD] = () => ({ compress: async encoder => zlib.zstdCompressSync(encoder.buffer), decompress: async buffer => zlib.zstdDecompressSync(buffer) })
const TYPES = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }

/** The name of the error with which a call ends. */
async function refusal (call) {
  try {
    const answer = await call()
    return answer === false ? 'false' : 'NO_ERROR'
  } catch (error) {
    return nameOf(error)
  }
}

/** Kafka's name of an error, however deep this client has wrapped it. */
function nameOf (error) {
  const inner = error.errors?.[0] ?? error.groups?.[0]?.error ?? error.partitions?.[0]?.error ?? error.cause
  if (error.type) return error.type
  if (!inner) throw error
  return nameOf(inner)
}

class Client {
  constructor (address) {
    this.kafka = new Kafka({ clientId: 'row', brokers: [address], logLevel: logLevel.NOTHING, retry: { retries: 8, initialRetryTime: 100 } })
    this.admin = this.kafka.admin({ retry: { retries: 2, initialRetryTime: 100 } })
    this.readers = 0
  }

  // ---- helpers

  async create (topic, partitions = 1) {
    await this.admin.createTopics({ topics: [{ topic, numPartitions: partitions, replicationFactor: 1 }] })
  }

  /** Sends them in one request, and returns the first offset of each partition. */
  async produce (topic, messages, { acks = -1, codec = 'none', ...options } = {}) {
    const producer = this.kafka.producer({ ...options, retry: { retries: 2, initialRetryTime: 100 } })
    await producer.connect()
    try {
      const answer = await producer.send({ topic, acks, compression: TYPES[codec], messages })
      return answer.map(each => each.baseOffset)
    } finally {
      await producer.disconnect()
    }
  }

  /** Messages of a partition from an offset on, by a group of its own: this client has no other way. */
  async read (topic, count, partition = 0, offset = 0) {
    const consumer = this.kafka.consumer({ groupId: `reader-${this.readers++}`, maxWaitTimeInMs: 100 })
    const messages = []
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async it => { if (it.partition === partition) messages.push(it.message) } })
    consumer.seek({ topic, partition, offset: String(offset) })
    await until(() => messages.length >= count, () => `read ${messages.length} of ${count}`)
    await consumer.disconnect()
    return messages.slice(0, count)
  }

  async member (group, topics, { instance, strategy } = {}) {
    if (instance) throw new Skip('no group.instance.id')
    if (strategy) throw new Skip('no incremental rebalance')
    const consumer = this.kafka.consumer({ groupId: group, heartbeatInterval: 200, sessionTimeout: 20_000, maxWaitTimeInMs: 100 })
    const member = { seen: [], changes: [], assigned: [] }
    consumer.on('consumer.group_join', ({ payload }) => {
      member.assigned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) => partitions.map(partition => `${topic}:${partition}`)).sort()
      member.changes.push(`=${member.assigned.length}`)
    })
    await consumer.connect()
    await consumer.subscribe({ topics, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async it => { member.seen.push(`${it.partition}:${it.message.offset.padStart(3, '0')}`) } })
    member.owned = () => member.assigned
    member.commit = (topic, offsets) => refusal(() => consumer.commitOffsets(Object.entries(offsets).map(([partition, offset]) => ({ topic, partition: Number(partition), offset: String(offset), metadata: 'a note' }))))
    member.close = () => consumer.disconnect()
    return member
  }

  async committed (group, topic) {
    const answer = await this.admin.fetchOffsets({ groupId: group, topics: [topic] })
    return answer[0].partitions.toSorted((a, b) => a.partition - b.partition).map(each => each.offset).join(' ')
  }

  // ---- operations

  async connect () {
    await this.admin.connect()
    const cluster = await this.admin.describeCluster()
    return `cluster ${cluster.clusterId}, nodes ${cluster.brokers.map(each => each.nodeId)}, controller ${cluster.controller}`
  }

  async createTopic () {
    const topic = (name, partitions = 1, replication = 1, entries = []) => ({ topic: name, numPartitions: partitions, replicationFactor: replication, configEntries: entries })
    await this.admin.createTopics({ topics: [topic('matrix', 3, 1, [{ name: 'retention.ms', value: '3600000' }])] })
    const errors = []
    for (const refused of [topic('matrix', 3), topic('too.many', 1, 3), topic('bad name'), topic('none', 0), topic('config', 1, 1, [{ name: 'retention.ms', value: 'soon' }]),
      topic('key', 1, 1, [{ name: 'no.such.key', value: '1' }]), { topic: 'assigned', replicaAssignment: [{ partition: 0, replicas: [1, 7] }] }]) {
      errors.push(await refusal(() => this.admin.createTopics({ topics: [refused], waitForLeaders: false })))
    }
    const checked = await this.admin.createTopics({ topics: [topic('only.checked')], validateOnly: true, waitForLeaders: false })
    expect('a checked topic', (await this.admin.listTopics()).includes('only.checked'), false)
    return `refused ${errors.join(' ')}, checked ${checked}`
  }

  async describe () {
    const { topics: [topic] } = await this.admin.fetchTopicMetadata({ topics: ['matrix'] })
    const partitions = topic.partitions.toSorted((a, b) => a.partitionId - b.partitionId).map(each => [each.partitionId, each.leader, each.replicas, each.isr])
    const unknown = await refusal(() => this.admin.fetchTopicMetadata({ topics: ['no.where'] }))
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
    expect('read', (await this.read('acks', 30)).map(each => each.value.toString()), sent)
    return '30 records'
  }

  async codec (codec) {
    await this.create(codec)
    const sent = values(codec, 1000)
    const first = await this.produce(codec, sent.map(value => ({ partition: 0, value })), { codec })
    expect('read', (await this.read(codec, 1000)).map(each => each.value.toString()), sent)
    return `1000 records from ${first}`
  }

  async idempotent () {
    await this.create('idempotent', 3)
    const sent = Array.from({ length: 10_000 }, (_, number) => ({ partition: number % 3, value: String(number) }))
    await this.produce('idempotent', sent, { idempotent: true, maxInFlightRequests: 1 })
    for (const partition of [0, 1, 2]) {
      const wanted = sent.filter(each => each.partition === partition).map(each => each.value)
      expect('read', (await this.read('idempotent', wanted.length, partition)).map(each => each.value.toString()), wanted)
    }
    return '10000 records, none twice, in order'
  }

  async records () {
    await this.create('records')
    // This client's headers are an object, whose values may be lists.
    const grouped = headers => headers.reduce((all, [name, value]) => ({ ...all, [name]: [...(all[name] ?? []), value] }), {})
    await this.produce('records', RECORDS.map(({ key, value, headers = [] }) => ({ partition: 0, key, value, headers: grouped(headers) })))
    const seen = (await this.read('records', RECORDS.length)).map(({ key, value, headers }) => [key?.toString() ?? null, value?.toString() ?? null, ...Object.entries(headers).map(String)])
    expect('read', seen, RECORDS.map(({ key, value, headers = [] }) => [key, value, ...Object.entries(grouped(headers)).map(String)]))
    return `${RECORDS.length} records, too large: ${await refusal(() => this.produce('records', [{ partition: 0, value: TOO_LARGE }]))}`
  }

  async seek () {
    await this.create('seek')
    const first = (Math.floor(Date.now() / 1000) - 3600) * 1000
    await this.produce('seek', Array.from({ length: 100 }, (_, number) => ({ partition: 0, value: 'x', timestamp: String(first + number * 1000) })))
    expect('at 50', (await this.read('seek', 1, 0, 50))[0].timestamp, String(first + 50_000))
    const looked = []
    for (const time of [0, first + 49_001, first + 99_000, first + 99_001]) looked.push((await this.admin.fetchTopicOffsetsByTimestamp('seek', time))[0].offset)
    const [{ offset, high, low }] = await this.admin.fetchTopicOffsets('seek')
    return `looked up ${looked}, next ${offset}, high ${high}, low ${low}, out of range ${(await this.read('seek', 1, 0, 1000))[0].offset}`
  }

  async addPartitions () {
    const grow = count => refusal(() => this.admin.createPartitions({ topicPartitions: [{ topic: 'matrix', count }] }))
    const outcomes = [await grow(5), await grow(5), await grow(2)]
    await this.produce('matrix', [{ partition: 4, value: 'fifth' }])
    expect('read', (await this.read('matrix', 1, 4))[0].value.toString(), 'fifth')
    return outcomes.join(' ')
  }

  async configs () {
    const alter = (...configEntries) => refusal(() => this.admin.alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: 'matrix', configEntries }] }))
    const outcomes = [await alter({ name: 'max.message.bytes', value: '2000000' }, { name: 'cleanup.policy', value: 'compact' }),
      await alter({ name: 'retention.ms', value: 'soon' }), await alter({ name: 'no.such.key', value: '1' })]
    const describe = async (type, name) => (await this.admin.describeConfigs({ includeSynonyms: true, resources: [{ type, name }] })).resources[0].configEntries
    const topic = (await describe(ConfigResourceTypes.TOPIC, 'matrix')).map(each => `${each.configName}=${each.configValue}/${each.configSource}`).sort()
    const broker = (await describe(ConfigResourceTypes.BROKER, '1')).find(each => each.configName === 'message.max.bytes').configValue
    const unknown = await refusal(() => describe(ConfigResourceTypes.TOPIC, 'nowhere'))
    return `replaced ${outcomes.join(' ')}, broker ${broker}, unknown ${unknown}, topic ${topic.join(' ')}`
  }

  async deleteRecords () {
    await this.create('delete.records')
    await this.produce('delete.records', values('delete', 100).map(value => ({ partition: 0, value })))
    const remove = offset => refusal(() => this.admin.deleteTopicRecords({ topic: 'delete.records', partitions: [{ partition: 0, offset: String(offset) }] }))
    const low = async () => (await this.admin.fetchTopicOffsets('delete.records'))[0].low
    await low() // the client must have asked for the topic before
    const outcomes = []
    for (const offset of [40, 1000, -1]) outcomes.push(`${offset} ${await remove(offset)} low ${await low()}`)
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
    const described = async name => {
      const it = (await this.admin.describeGroups([name])).groups[0]
      return `${it.errorCode} ${it.state} ${it.protocolType} ${it.protocol} members ${it.members.length}`
    }
    const offsets = async () => (await this.admin.fetchOffsets({ groupId: group })).map(each => `${each.topic} ${each.partitions.map(it => `${it.partition}:${it.offset}:${it.metadata}`)}`).sort()
    const remove = () => refusal(() => this.admin.deleteGroups([group]))
    const seen = [`active ${await described(group)}`, `offsets ${await offsets()}`, `delete ${await remove()}`]
    await member.close()
    const listed = (await this.admin.listGroups()).groups.filter(each => each.groupId === group).map(each => each.protocolType)
    await this.admin.setOffsets({ groupId: group, topic: 'admin.two', partitions: [{ partition: 0, offset: '7' }] })
    await this.admin.resetOffsets({ groupId: group, topic: 'admin.one', earliest: true })
    seen.push(`left ${await described(group)}`, `listed ${listed}`, `set ${await offsets()}`, `delete ${await remove()}`, `again ${await remove()}`,
      `gone ${await described(group)}`, `offsets ${await offsets()}`)
    return seen.join('; ')
  }
}

run(new Client(process.argv[2]))
