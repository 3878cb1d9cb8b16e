# Raw files: from --config mirror=DIR or the data packages of the lock, checked against resources/sources.tsv.

for source_name in PLAN.sources:

    rule:
        name:
            f"fetch_{source_name.replace('-', '_')}"
        input:
            table="resources/sources.tsv",
        output:
            PLAN.source_file(source_name),
        log:
            f"{ROOT}/logs/fetch/{source_name}.log",
        benchmark:
            f"{ROOT}/benchmarks/fetch/{source_name}.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        params:
            name=source_name,
            mirror=lambda wildcards: (
                f"--mirror {config['mirror']}" if config["mirror"] else ""
            ),
        message:
            "Checking {params.name}"
        shell:
            "{PYTHON} workflow_scripts/fetch.py --sources {input.table} --name {params.name} {params.mirror}"
            " --out {output} --log {log}"
